// What a run came to: what each node did, and what the root prints of all of them.
//
// Plain values and pure functions; safe from any thread. What a node says of its work (wire::Account) may be any
// number; who it is, the root knows itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/wire/call_messages.h"

namespace ravnest::report {

struct NodeSummary {
  std::string node;
  std::string role;  // "root", "stem", "leaf" or "solo"
  wire::NodeWork work;

  bool operator==(const NodeSummary&) const = default;
};

// The time that went into computing, from 0 to 1.
double busy_share(const wire::NodeWork& work);

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

// "Trained 3 epochs in 12 s: ...", with an end of line.
std::string headline(const RunSummary& run);
// For people, several lines: what was done and how fast, a table of the nodes, and what limited the run (limit.h).
std::string summary_text(const RunSummary& run);

}  // namespace ravnest::report
