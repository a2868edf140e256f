// What a run came to: each node's own account, and what the root prints of all of them.
//
// A node sends its account to the root as JSON text. The root trusts nothing of it: `decode_node_summary` checks every
// value, but not that the node is who it says; whoever receives it knows that.
// Plain values and pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::report {

struct NodeSummary {
  std::string node;
  std::string role;      // "root", "stem", "leaf" or "solo"
  double running_s = 0;  // since its first pass began; of that it computed:
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  std::uint64_t passes = 0;  // that train
  std::uint64_t updates = 0;
  double staleness_mean = 0;  // updates between a pass's forward and its backward
  std::uint64_t staleness_most = 0;
  std::uint64_t versions_most = 0;  // of the weights, at one time
  std::uint64_t bytes_sent = 0;     // on its connections
  std::uint64_t bytes_received = 0;
  std::uint64_t tensor_bytes_sent = 0;  // before compression
  double round_trip_s = 0;              // to the next stage; 0: not measured, or there is none

  bool operator==(const NodeSummary&) const = default;
};

// The time that went into computing, from 0 to 1.
double busy_share(const NodeSummary& node);

// What is no finite number of at least 0 is written as 0: an account must not fail for a 0/0.
std::string encode(const NodeSummary& summary);

// kCorrupt, with the place, where anything is missing, of another kind, or not possible; or where the text is longer
// than `kLongestSummary` bytes. Keys that are not known are ignored. `what` names the text: "the summary of node_2".
inline constexpr std::size_t kLongestSummary = 4096;
Result<NodeSummary> decode_node_summary(std::string_view json, std::string_view what);

// Optimizer steps whose loss was nan or infinite.
struct BadLosses {
  std::uint64_t steps = 0;
  std::uint64_t first = 0;  // counted from 1
  std::uint64_t last = 0;

  bool operator==(const BadLosses&) const = default;
};

struct RunSummary {
  double seconds = 0;
  std::uint64_t samples = 0;
  std::uint64_t epochs = 0;
  std::uint64_t updates_per_epoch = 0;            // 0: unknown
  std::optional<double> accuracy = std::nullopt;  // of the last validation, percent
  std::string schedule = "async";                 // or "sync", "gpipe"
  int window = 0;                                 // 0: as many passes as there are nodes
  std::string compression = "";                   // as asked for: "fp16", "int8"; empty: none
  BadLosses bad_losses = {};
  std::vector<NodeSummary> nodes = {};  // of one cluster, from the root to the leaf
};

// For people, several lines: what was done and how fast, a table of the nodes, and what limited the run (limit.h).
std::string summary_text(const RunSummary& run);

}  // namespace ravnest::report
