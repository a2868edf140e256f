#include "ravnest/strategy/place/rank_environment.h"

#include <gtest/gtest.h>

#include <vector>

namespace ravnest::strategy {
namespace {

Place second_machine() {
  const PlaceFlags flags{.nodes = 2, .devices = 3, .node_rank = 1, .master = Address{"10.0.0.1", 29501}};
  return *find_place(flags, {}, 0);
}

TEST(RankEnvironment, ARankFindsThePlaceThatItWasStartedFor) {
  Place place = second_machine();
  place.run_id = "some-run";
  for (int local_rank = 0; local_rank < 3; ++local_rank) {
    const auto found = find_place({}, rank_environment(place, local_rank), 0);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->rank, 3 + local_rank);
    EXPECT_EQ(found->local_rank, local_rank);
    EXPECT_EQ(found->world, 6);
    EXPECT_EQ(found->local_world, 3);
    EXPECT_EQ(found->node, 1);
    EXPECT_EQ(found->nodes, 2);
    EXPECT_EQ(found->master, place.master);
    EXPECT_EQ(found->run_id, "some-run");
    EXPECT_FALSE(found->agent_store);
    EXPECT_EQ(found->restarts, 0);
  }
}

TEST(RankEnvironment, AllMachinesCallARunWithoutANameAlike) {
  EXPECT_EQ(rank_environment(second_machine(), 0).at("TORCHELASTIC_RUN_ID"), "none");
}

}  // namespace
}  // namespace ravnest::strategy
