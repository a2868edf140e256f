#include "ravnest/plan/averaging_groups.h"

#include <algorithm>
#include <set>

namespace ravnest::plan {
namespace {

int stage_at(const PlannedCluster& cluster, int position) {
  const auto& stages = cluster.stages;
  const auto found = std::ranges::find_if(stages, [&](const PlannedStage& stage) { return position < stage.end; });
  return static_cast<int>(found - stages.begin());
}

}  // namespace

std::vector<AveragingGroup> averaging_groups_of(const Plan& plan) {
  if (plan.clusters.size() < 2) return {};
  std::set<int> begins;
  const PlannedCluster* longest = &plan.clusters.front();
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) begins.insert(stage.begin);
    if (cluster.stages.size() > longest->stages.size()) longest = &cluster;
  }
  std::vector<AveragingGroup> averaging_groups;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    AveragingGroup& averaging_group = averaging_groups.emplace_back();
    averaging_group.number = static_cast<int>(averaging_groups.size()) - 1;
    averaging_group.begin = *begin;
    averaging_group.end = std::next(begin) == begins.end() ? plan.operators : *std::next(begin);
    averaging_group.ring = stage_at(*longest, *begin);
    for (const PlannedCluster& cluster : plan.clusters)
      averaging_group.nodes.push_back(cluster.stages[stage_at(cluster, *begin)].node);
  }
  return averaging_groups;
}

std::vector<AveragingGroup> averaging_groups_of(const Plan& plan, int node) {
  std::vector<AveragingGroup> averaging_groups = averaging_groups_of(plan);
  std::erase_if(averaging_groups, [&](const AveragingGroup& averaging_group) {
    return std::ranges::find(averaging_group.nodes, node) == averaging_group.nodes.end();
  });
  return averaging_groups;
}

const AveragingGroup* averaging_group_at(const std::vector<AveragingGroup>& averaging_groups, int position) {
  for (const AveragingGroup& averaging_group : averaging_groups) {
    if (position >= averaging_group.begin && position < averaging_group.end) return &averaging_group;
  }
  return !averaging_groups.empty() && position >= averaging_groups.back().end ? &averaging_groups.back() : nullptr;
}

}  // namespace ravnest::plan
