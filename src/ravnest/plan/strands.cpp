#include "ravnest/plan/strands.h"

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

std::vector<Strand> strands_of(const Plan& plan) {
  if (plan.clusters.size() < 2) return {};
  std::set<int> begins;
  const PlannedCluster* longest = &plan.clusters.front();
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) begins.insert(stage.begin);
    if (cluster.stages.size() > longest->stages.size()) longest = &cluster;
  }
  std::vector<Strand> strands;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    Strand& strand = strands.emplace_back();
    strand.number = static_cast<int>(strands.size()) - 1;
    strand.begin = *begin;
    strand.end = std::next(begin) == begins.end() ? plan.operators : *std::next(begin);
    strand.ring = stage_at(*longest, *begin);
    for (const PlannedCluster& cluster : plan.clusters)
      strand.nodes.push_back(cluster.stages[stage_at(cluster, *begin)].node);
  }
  return strands;
}

std::vector<Strand> strands_of(const Plan& plan, int node) {
  std::vector<Strand> strands = strands_of(plan);
  std::erase_if(strands,
                [&](const Strand& strand) { return std::ranges::find(strand.nodes, node) == strand.nodes.end(); });
  return strands;
}

const Strand* strand_at(const std::vector<Strand>& strands, int position) {
  for (const Strand& strand : strands) {
    if (position >= strand.begin && position < strand.end) return &strand;
  }
  return !strands.empty() && position >= strands.back().end ? &strands.back() : nullptr;
}

}  // namespace ravnest::plan
