// What limited a run, and what would help: decided from the summary alone.
//
// The reasoning. A stage that computes nearly all the time is what the others wait for. Where none does, passes are
// somewhere else: between machines, if round trips make up much of a pass's way; waiting for updates, if the schedule
// asks for it; not begun, if as many are under way as the window allows; otherwise not there yet, and the root's data
// loop is slow. A link's bandwidth is not measured, so that a slow link with short round trips looks like the last
// case; the words say so.
#pragma once

#include <cstddef>
#include <string>

#include "ravnest/report/summary.h"

namespace ravnest::report {

enum class Limit {
  kUnknown,    // nothing was measured
  kStage,      // one stage computes nearly all the time, the others wait for it
  kAllStages,  // all of them do
  kSchedule,   // stages wait for each batch's update
  kSeveral,    // the busiest stage is not idle for long, but nothing stands out
  kNetwork,    // passes spend much of their time between machines
  kWindow,     // too few passes at a time for all stages to have one
  kData,       // the passes came too slowly
};

struct Diagnosis {
  Limit limit = Limit::kUnknown;
  std::size_t busiest = 0;      // in RunSummary::nodes
  double busy = 0;              // its share
  double others_busy = 0;       // the mean share of the others
  double between_machines = 0;  // the share of a pass's way that round trips are
  double possible_busy = 1;     // the most that the schedule allows
  bool window_full = false;     // as many passes under way as the window allows, or nearly
  bool stale = false;           // weights of every single batch are old enough to matter for deep transformers
  std::size_t stalest = 0;      // in RunSummary::nodes

  bool operator==(const Diagnosis&) const = default;
};

Diagnosis diagnose(const RunSummary& run);

// One sentence or two for each finding, on a line of its own.
std::string diagnosis_text(const RunSummary& run, const Diagnosis& diagnosis);

}  // namespace ravnest::report
