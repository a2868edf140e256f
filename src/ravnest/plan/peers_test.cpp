#include "ravnest/plan/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/plan/sample_costs.h"

namespace ravnest::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Three clusters of two stages; each stage owns parameters with the next cluster's stage of the same place, and the
// first of cluster 0 with both of cluster 1. Node 6 is not used.
Plan sample() {
  Plan plan;
  plan.pool = equal_pool(7, 8, 10);
  for (int c = 0; c < 3; ++c) {
    PlannedCluster& cluster = plan.clusters.emplace_back();
    for (int s = 0; s < 2; ++s) {
      PlannedStage& stage = cluster.stages.emplace_back();
      stage.node = 2 * c + s;
      stage.next_owners.push_back({2 * ((c + 1) % 3) + s, "w"});
    }
  }
  plan.clusters[0].stages[0].next_owners.push_back({3, "v"});
  plan.unused = {6};
  return plan;
}

TEST(Peers, AreTheClusterAndBothNeighboursInTheRings) {
  const Plan plan = sample();
  EXPECT_THAT(peers_of(plan, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(peers_of(plan, 1), ElementsAre(0, 3, 5));
  EXPECT_THAT(peers_of(plan, 2), ElementsAre(0, 3, 4));
  EXPECT_THAT(peers_of(plan, 3), ElementsAre(0, 1, 2, 5));
}

TEST(Peers, TalkingIsMutual) {
  const Plan plan = sample();
  for (int a = 0; a < 6; ++a) {
    for (const int b : peers_of(plan, a)) EXPECT_THAT(peers_of(plan, b), ::testing::Contains(a)) << a << " " << b;
  }
}

TEST(Peers, ANodeIsNotItsOwnPeerInARingOfOneCluster) {
  Plan plan = sample();
  plan.clusters.resize(1);
  plan.clusters[0].stages[0].next_owners = {{0, "w"}};
  plan.clusters[0].stages[1].next_owners = {{1, "w"}};
  EXPECT_THAT(peers_of(plan, 0), ElementsAre(1));
}

TEST(Peers, AnUnusedNodeHasNone) { EXPECT_THAT(peers_of(sample(), 6), IsEmpty()); }

}  // namespace
}  // namespace ravnest::plan
