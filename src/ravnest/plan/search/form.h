// From a pool and a model's costs to clusters with their stages: the decisions of a plan, before any file is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/plan/pool/pool.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/search/cut.h"

namespace ravnest::plan {

struct FormOptions {
  std::optional<Balance> balance;  // by default time where every node's compute is known, else params
  int min_cluster_size = 2;
  // By time nodes that would make the pool slower are left out, as spares; or all are used.
  bool use_all = false;
  std::uint64_t seed = 0;
  TrainingAssumptions training;
  std::function<bool(double)> progress;  // is told the share that is done; false ends it all
};

struct FormedCluster {
  std::vector<int> nodes;  // in the order of the stages
  Cutting cutting;
};

struct Formation {
  std::vector<FormedCluster> clusters;  // by their lowest node
  std::vector<int> unused;              // nodes that have no stage
  std::vector<int> spares;              // of those, the ones without which the pool is faster
  Balance balance = Balance::kParams;
  std::vector<std::string> notes;
};

// kInvalid where the RAM of the pool, of a cluster or of a node is less than it must hold, with both numbers and what
// would help, or where the model cannot be cut for so many nodes. kCancelled where `progress` has said so.
Result<Formation> form_clusters(const ModelCosts& costs, const Pool& pool, const FormOptions& options);

}  // namespace ravnest::plan
