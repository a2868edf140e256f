// All files of a plan, from the plan and the stages' models.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// The stages of one cluster's copy of the model, in order.
using StagesOf = std::function<Result<std::vector<ir::Model>>(int cluster)>;

// Replaces the plan in node_data (replacement.h): all of it appears, or the earlier plan stays. `stages_of` is asked
// for each cluster once, so that only one cut model is in memory at a time.
// Clusters that are cut alike share their archives on disk, as hard links, where the file system has them.
// `progress` is told the share that is done; kCancelled where it answers false.
Status write_plan(const Plan& plan, const StagesOf& stages_of, const std::filesystem::path& node_data,
                  const std::function<bool(double)>& progress = {});

// The plan in node_data, after whatever an interrupted replacement left to do.
Result<Plan> read_plan(const std::filesystem::path& node_data);

// nodes/node_3.json.
std::string encode_node(const Plan& plan, int node, const std::filesystem::path& node_data);

}  // namespace ravnest::plan
