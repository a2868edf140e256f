#include "ravnest/plan/peers.h"

#include <set>

#include "ravnest/plan/averaging_groups.h"

namespace ravnest::plan {

std::vector<int> peers_of(const Plan& plan, int node) {
  const int own_cluster = plan.place_of(node).first;
  if (own_cluster < 0) return {};
  std::set<int> peers;
  for (const PlannedStage& stage : plan.clusters[own_cluster].stages) peers.insert(stage.node);
  for (const AveragingGroup& averaging_group : averaging_groups_of(plan, node))
    peers.insert(averaging_group.nodes.begin(), averaging_group.nodes.end());
  peers.erase(node);
  return {peers.begin(), peers.end()};
}

}  // namespace ravnest::plan
