// A model file as the planner needs it. Only the source sees torch.
#pragma once

#include <filesystem>

#include "ravnest/base/status.h"
#include "ravnest/plan/plan.h"
#include "ravnest/plan/predict/costs.h"
#include "ravnest/plan/search/form.h"

namespace ravnest::cli {

// What planning needs to know of the model in an archive.
Result<plan::ModelCosts> read_costs(const std::filesystem::path& archive, const plan::TrainingAssumptions& training);

struct PlanRequest {
  std::filesystem::path archive;
  std::filesystem::path pool_file;  // empty: in node_data
  std::filesystem::path node_data = "node_data";
  plan::FormOptions form;
  bool write = true;
};

// The plan, its files written to node_data.
Result<plan::Plan> make_plan(const PlanRequest& request);

}  // namespace ravnest::cli
