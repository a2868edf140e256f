// A pool and what happens to it, as a scenario file tells it: the input of `simulate`.
//
//   {"nodes": [{"count": 100, "ram": 16, "bandwidth": 100, "compute": 200, "latency": 20, "spread": 0.2}],
//    "events": [{"join": {"count": 10, "ram": 4, "bandwidth": 10}, "name": "old laptops"},
//               {"leave": [3, 17]},
//               {"link": {"nodes": [0], "bandwidth": 5, "latency": 80}},
//               {"slow": {"nodes": [1, 2], "factor": 0.25}},
//               {"reduce_factor": 50}],
//    "balance": "time", "min_cluster_size": 2, "seed": 42, "optimizer_state": 2, "reduce_factor": 100}
//
// or `"pool": "node_configs.json"` in place of "nodes", relative to the scenario file's folder. Units are those of the
// pool file. A spread of 0.2 draws each node's ram, bandwidth and compute from -20 % to +20 % of the group's, by the
// seed, in the order of the file: what is added at its end changes no earlier draw. Nodes that join get the next ids.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/plan/pool/pool.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

struct Join {
  std::vector<PoolNode> nodes;
};
struct Leave {
  std::vector<int> nodes;
};
// What is not given stays as it is.
struct LinkChange {
  std::vector<int> nodes;
  std::optional<double> bandwidth_mbps;
  std::optional<double> latency_ms;
};
struct ComputeChange {
  std::vector<int> nodes;
  double factor = 1;  // of what they computed just before
};
struct AveragingChange {
  int updates_per_round = 0;
};

struct Event {
  std::string name;  // the user's, or one made of what happens
  std::variant<Join, Leave, LinkChange, ComputeChange, AveragingChange> change;
};

struct Scenario {
  Pool pool;  // at the start
  std::vector<Event> events;
  FormOptions form;  // without progress
};

// More nodes than this, all joins counted, are refused.
inline constexpr int kMostSimulatedNodes = 10'000;

// kInvalid with one sentence that names the file, the key path and what was expected; kNotFound where there is no file.
// Events only name nodes that are there when they happen, and never take away the last one.
Result<Scenario> read_scenario(const std::filesystem::path& file);
// `folder`: where the path of a pool file starts.
Result<Scenario> decode_scenario(std::string_view json, std::string_view file, const std::filesystem::path& folder);

}  // namespace ravnest::plan
