#include "ravnest/plan/averaging.h"

#include <algorithm>

#include "ravnest/plan/pool/machine.h"

namespace ravnest::plan {
namespace {

constexpr int kMostUpdates = 1'000'000'000;

double round_bytes(const Plan& plan, const PlannedStage& stage) {
  return stage.prediction.averaging_bytes * plan.training.updates_per_round;
}

}  // namespace

std::vector<RoundCost> slowest_of_rings(const Plan& plan) {
  if (plan.clusters.size() < 2) return {};
  const std::vector<Machine> machines = machines_of(plan.pool);
  std::vector<RoundCost> slowest;
  for (const PlannedCluster& cluster : plan.clusters) slowest.resize(std::max(slowest.size(), cluster.stages.size()));
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      const double bytes = round_bytes(plan, stage);
      const RoundCost own{stage.node, bytes, bytes / machines[stage.node].link_bytes_per_s};
      for (const RingPart& part : stage.rings) {
        if (part.ring >= static_cast<int>(slowest.size())) continue;
        if (own.link_s > slowest[part.ring].link_s) slowest[part.ring] = own;
      }
    }
  }
  return slowest;
}

double samples_per_s_averaging_every(const Plan& plan, int updates) {
  const std::vector<Machine> machines = machines_of(plan.pool);
  std::vector<ClusterPrediction> clusters;
  for (const PlannedCluster& planned : plan.clusters) {
    ClusterPrediction& cluster = clusters.emplace_back();
    cluster.round_trip_s = planned.round_trip_s;
    cluster.window = planned.window;
    for (const PlannedStage& stage : planned.stages) {
      const double bytes = updates > 0 ? round_bytes(plan, stage) / updates : 0;
      cluster.stages.push_back(with_averaging(stage.prediction, machines[stage.node], bytes));
    }
    settle(cluster, plan.batch);
  }
  return pool_samples_per_s(clusters);
}

std::optional<int> fewest_updates_that_matter_little(const Plan& plan) {
  const double enough = (1 - kSmallLoss) * samples_per_s_averaging_every(plan, 0);
  const auto matters_little = [&](int updates) { return samples_per_s_averaging_every(plan, updates) > enough; };
  if (matters_little(1)) return 1;
  if (!matters_little(kMostUpdates)) return std::nullopt;
  int too_few = 1;
  int few = kMostUpdates;
  while (few - too_few > 1) {
    const int between = too_few + (few - too_few) / 2;
    (matters_little(between) ? few : too_few) = between;
  }
  return few;
}

}  // namespace ravnest::plan
