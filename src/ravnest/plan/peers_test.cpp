#include "ravnest/plan/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Peers, AreTheClusterAndAllThatShareAAveragingGroupNotOnlyTheNextCluster) {
  const Plan plan = cut_plan(10, {{5}, {5}, {5}, {5}});
  EXPECT_THAT(peers_of(plan, 0), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(peers_of(plan, 5), ElementsAre(1, 3, 4, 7));
}

TEST(Peers, OfAWideStageAreAllNarrowOnesWithinIt) {
  const Plan plan = cut_plan(10, {{5}, {2, 6}});  // nodes 0 and 1; 2, 3 and 4
  EXPECT_THAT(peers_of(plan, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(peers_of(plan, 1), ElementsAre(0, 3, 4));
  EXPECT_THAT(peers_of(plan, 3), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(peers_of(plan, 4), ElementsAre(1, 2, 3));
}

TEST(Peers, AllRootsTalkToEachOtherAndTalkingIsMutual) {
  const Plan plan = cut_plan(20, {{7}, {3, 11}, {1, 2, 3, 4}, {}});
  for (const PlannedCluster& a : plan.clusters) {
    for (const PlannedCluster& b : plan.clusters) {
      if (&a != &b) {
        EXPECT_THAT(peers_of(plan, a.stages[0].node), Contains(b.stages[0].node));
      }
    }
  }
  for (int a = 0; a < static_cast<int>(plan.pool.nodes.size()); ++a) {
    for (const int b : peers_of(plan, a)) EXPECT_THAT(peers_of(plan, b), Contains(a)) << a << " " << b;
  }
}

TEST(Peers, OfTheOnlyClusterAreItsOtherNodes) {
  EXPECT_THAT(peers_of(cut_plan(10, {{4, 7}}), 1), ElementsAre(0, 2));
  EXPECT_THAT(peers_of(cut_plan(10, {{}}), 0), IsEmpty());
}

TEST(Peers, AnUnusedNodeHasNone) {
  Plan plan = cut_plan(10, {{5}, {5}});
  plan.pool = equal_pool(5, 8, 10);
  plan.unused = {4};
  EXPECT_THAT(peers_of(plan, 4), IsEmpty());
}

}  // namespace
}  // namespace ravnest::plan
