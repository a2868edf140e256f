#include "ravnest/plan/peers.h"

#include <algorithm>
#include <set>

namespace ravnest::plan {

std::vector<int> peers_of(const Plan& plan, int node) {
  const auto [own_cluster, own_stage] = plan.place_of(node);
  if (own_cluster < 0) return {};
  std::set<int> peers;
  for (const PlannedStage& stage : plan.clusters[own_cluster].stages) peers.insert(stage.node);
  for (const NextOwner& owner : plan.clusters[own_cluster].stages[own_stage].next_owners) peers.insert(owner.node);
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      if (std::ranges::find(stage.next_owners, node, &NextOwner::node) != stage.next_owners.end())
        peers.insert(stage.node);
    }
  }
  peers.erase(node);
  return {peers.begin(), peers.end()};
}

}  // namespace ravnest::plan
