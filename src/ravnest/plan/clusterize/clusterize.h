// From a captured model and a pool file to a plan and its files: what `clusterize` and `ravnest plan` do.
#pragma once

#include <filesystem>
#include <functional>

#include "ravnest/base/status.h"
#include "ravnest/graph/cost/profile.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/plan/plan.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::plan {

// What planning needs to know of a model. `profile` is of that model: from shapes, or from a real pass, whose memory it
// then has. Work is counted in FLOPs; what takes time without counting as such (memory traffic, calls) is
// put in at the exchange rates of costs_of.cpp.
Result<ModelCosts> costs_of(const ir::Model& model, const graph::Profile& profile, const TrainingAssumptions& training);

struct ClusterizeOptions {
  FormOptions form;
  std::filesystem::path node_data = "node_data";
  std::filesystem::path pool_file;  // node_data/node_configs.json where empty
  bool write = true;                // or only plan
};

// Reads the pool, makes the plan, cuts the model and replaces what is in node_data. Nothing is written unless all of it
// can be: on failure an earlier plan is as it was.
Result<Plan> clusterize(const ir::Model& model, const graph::Profile& profile, const ClusterizeOptions& options);

}  // namespace ravnest::plan
