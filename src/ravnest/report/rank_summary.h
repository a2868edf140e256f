// What a data-parallel run came to: what each rank did, and what rank 0 prints of all of them.
//
// Plain values and pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/report/summary.h"

namespace ravnest::report {

struct RankSummary {
  std::string rank;      // "rank_3"
  double running_s = 0;  // since the call began; of that it was busy with:
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double wait_s = 0;  // waiting for gradients, after all here was computed: what communication was not hidden
  std::uint64_t bytes_sent = 0;  // in the call; 0 on all ranks: not counted
  std::uint64_t bytes_received = 0;

  bool operator==(const RankSummary&) const = default;
};

// Of fp16: updates whose gradients were not finite.
struct SkippedUpdates {
  std::uint64_t updates = 0;
  double loss_scale = 1;  // in the end
};

// What of RunSummary is meant of any run, with the ranks in the place of the nodes.
struct RanksSummary {
  RunSummary run;  // without nodes, schedule and window
  std::string strategy = "ddp";
  std::string backend;  // "the ring", "NCCL"
  std::string precision = "float32";
  SkippedUpdates skipped = {};
  std::vector<RankSummary> ranks;
};

// For people, several lines: what was done and how fast, a table of the ranks, and what limited the run.
std::string summary_text(const RanksSummary& summary);

}  // namespace ravnest::report
