// What makes a stage dear on a machine, for `cut` and `arrange`.
#pragma once

#include <algorithm>
#include <limits>

#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/predict/memory.h"
#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/predict/segments.h"

namespace ravnest::plan {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Memory as a share of the machine's RAM.
inline double used_share(const StageLoad& load, const Machine& machine, int stage, int stages,
                         const TrainingAssumptions& options) {
  return static_cast<double>(stage_memory(load, machine, {stage, stages, stages}, options).total()) / machine.ram_bytes;
}

// Seconds per batch that the segment [begin, end) keeps the machine busy; kImpossible where it does not fit. May stop
// at any figure that is not below `enough`.
inline double busy_s(const Segments& segments, int begin, int end, const Machine& machine, int stage, int stages,
                     const TrainingAssumptions& options, double enough) {
  const double compute_s = segments.work(begin, end) / machine.flops_per_s;
  if (compute_s >= enough) return compute_s;
  const StageLoad load = segments.load(begin, end);
  if (used_share(load, machine, stage, stages, options) > 1) return kImpossible;
  const std::int64_t out = load.sent_bytes + load.returned_bytes;
  const std::int64_t in = load.received_bytes + load.gradient_bytes;
  const double bytes = static_cast<double>(std::max(out, in)) * options.sent_share + averaging_bytes(load, options);
  return std::max(compute_s, bytes / machine.link_bytes_per_s);
}

}  // namespace ravnest::plan
