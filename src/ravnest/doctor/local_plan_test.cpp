#include "ravnest/plan/files/local_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/doctor/caller.h"
#include "ravnest/doctor/testing/node_data.h"

namespace ravnest::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Wait in_time() { return Wait::of(kTestTime); }

TEST(PlanHere, IsReadAsItWasWritten) {
  const NodeData data(plan_on_free_ports(3));
  const auto read = plan::read_plan_here(data.here().node_data);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->plan.id, "test");
  EXPECT_EQ(plan::folder_of(*read, 2), plan::folder_of(data.here(), 2));
}

TEST(PlanHere, NodesGoByTheirNameOrNumber) {
  const plan::Plan plan = plan_on_free_ports(3);
  EXPECT_EQ(plan::node_named(plan, "node_2").value(), 2);
  EXPECT_EQ(plan::node_named(plan, "1").value(), 1);
}

TEST(PlanHere, AnUnknownNodeIsAnsweredWithThoseThereAre) {
  for (const std::string name : {"node_3", "3", "node_", "-1", "", "node_01"}) {
    const auto found = plan::node_named(plan_on_free_ports(3), name);
    ASSERT_EQ(found.status().code(), Code::kNotFound) << name;
    EXPECT_THAT(found.status().message(), HasSubstr("its nodes are node_0, node_1, node_2"));
  }
}

TEST(PlanHere, TheAskerIsAnotherNodeWhoseIdentityIsHere) {
  const NodeData all(plan_on_free_ports(3));
  EXPECT_EQ(plan::asker_of(all.here(), 0, "").value(), 1);
  EXPECT_EQ(plan::asker_of(all.here(), 2, "").value(), 0);
  EXPECT_EQ(plan::asker_of(all.here(), 0, "2").value(), 2);
  const NodeData one(plan_on_free_ports(3), {1});
  EXPECT_EQ(plan::asker_of(one.here(), 0, "").value(), 1);
  EXPECT_EQ(plan::asker_of(one.here(), 1, "").value(), 1);
}

TEST(PlanHere, WithoutAnyIdentityNobodyCanAsk) {
  const plan::PlanHere here{"node_data", plan_on_free_ports(2)};
  EXPECT_EQ(plan::asker_of(here, 0, "").status().code(), Code::kNotFound);
  EXPECT_EQ(plan::nodes_to_examine(here, "", in_time()).status().code(), Code::kNotFound);
}

TEST(PlanHere, AllNodesThatListenOnThisMachineAreExamined) {
  const NodeData data(plan_at({local(8080), {"203.0.113.1", 8080}, {"0.0.0.0", 8081}}));
  EXPECT_THAT(plan::nodes_to_examine(data.here(), "", in_time()).value(), ElementsAre(0, 2));
  EXPECT_THAT(plan::nodes_to_examine(data.here(), "node_1", in_time()).value(), ElementsAre(1));
}

TEST(PlanHere, TheOnlyNodeWhoseIdentityIsHereIsExaminedWhateverItsAddress) {
  const NodeData data(plan_at({local(8080), {"203.0.113.1", 8080}}), {1});
  EXPECT_THAT(plan::nodes_to_examine(data.here(), "", in_time()).value(), ElementsAre(1));
}

TEST(PlanHere, NodesOfOtherMachinesAreNotExaminedUnasked) {
  const NodeData data(plan_at({{"203.0.113.2", 8080}, {"203.0.113.1", 8080}}));
  EXPECT_THAT(plan::nodes_to_examine(data.here(), "", in_time()).status().message(), HasSubstr("choose with --node"));
}

TEST(PlanHere, ACallerNeedsASoundIdentity) {
  const NodeData data(plan_on_free_ports(2), {0});
  EXPECT_EQ(caller(data.here(), 0, "").value().name, "node_0");
  EXPECT_EQ(caller(data.here(), 1, "").status().code(), Code::kNotFound);
  put_identity(data.here(), 1, data.identity(0));
  EXPECT_EQ(caller(data.here(), 1, "").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest::doctor
