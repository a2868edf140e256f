#include "ravnest/doctor/examine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "ravnest/doctor/testing/node_data.h"

namespace ravnest::doctor {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

auto is(Severity severity, const std::string& words) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::sentence, HasSubstr(words)));
}

ExamineOptions options(Duration wait = {}) {
  ExamineOptions options;
  options.software = kTestRelease;
  options.wait = wait;
  return options;
}

TEST(Examination, OfAllNodesOnOneMachineIsWellBeforeAnyRuns) {
  const NodeData data(plan_on_free_ports(3));
  std::vector<Finding> told;
  const auto found = examine(data.here(), {0, 1, 2}, options(), [&](const Finding& each) { told.push_back(each); });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, AllOf(SizeIs(1 + 3 * 4 + 3 * 2), Each(Field(&Finding::severity, Severity::kOk))));
  EXPECT_EQ(told.size(), found->size());
  EXPECT_EQ(summary(*found), "19 checks: all is well");
}

TEST(Examination, NamesThePeersThatAreNotThere) {
  const NodeData data(plan_on_free_ports(3));
  const auto node_1 = data.run(1);
  const auto found = examine(data.here(), {0}, options());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, Contains(is(Severity::kOk, "reaches node_1")));
  EXPECT_THAT(*found, Contains(is(Severity::kProblem, "cannot reach node_2: nothing listens")));
  EXPECT_TRUE(has_problem(*found));
}

// As on two machines: each has its own identity only, and they begin one after the other.
TEST(Examination, OfTwoMachinesFindEachOther) {
  const NodeData data(plan_on_free_ports(2));
  std::latch listens(1);
  Result<std::vector<Finding>> first = cancelled("not run");
  std::jthread early([&] {
    first = examine(data.here(), {0}, options(kTestTime), [&](const Finding& each) {
      if (each.sentence.find("is free") != std::string::npos) listens.count_down();
    });
  });
  listens.wait();
  const auto second = examine(data.here(), {1}, options(kTestTime));
  early.join();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(*first, Contains(is(Severity::kOk, "reaches node_1")));
  EXPECT_THAT(*second, Contains(is(Severity::kOk, "reaches node_0")));
  EXPECT_FALSE(has_problem(*first) || has_problem(*second));
}

// node_1's machine lets nothing in: node_0 cannot get there, but node_1 comes by itself.
TEST(Examination, OfAMachineThatCanOnlyDialOutIsAWarningOnBothSides) {
  const NodeData data(plan_on_free_ports(2));
  plan::PlanHere seen_by_0 = data.here();
  seen_by_0.plan.pool.nodes[1].address = local(free_port());
  std::latch listens(1);
  Result<std::vector<Finding>> first = cancelled("not run");
  std::jthread early([&] {
    first = examine(seen_by_0, {0}, options(kTestTime), [&](const Finding& each) {
      if (each.sentence.find("is free") != std::string::npos) listens.count_down();
    });
  });
  listens.wait();
  const auto second = examine(data.here(), {1}, options());
  early.join();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(*first, Contains(is(Severity::kWarning, "cannot reach node_1, which has reached it")));
  EXPECT_THAT(*second, Contains(is(Severity::kWarning, "node_0 cannot reach node_1")));
  EXPECT_FALSE(has_problem(*first) || has_problem(*second));
}

TEST(Examination, WithoutASoundIdentitySaysSoAndGoesNoFurther) {
  const NodeData data(plan_on_free_ports(2), {1});
  const auto found = examine(data.here(), {0}, options());
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, Contains(is(Severity::kProblem, "its identity is not here")));
  EXPECT_THAT(*found, Contains(is(Severity::kWarning, "were not examined")));
}

TEST(Examination, EndsAtOnceWhenAskedTo) {
  const NodeData data(plan_on_free_ports(2));
  const EventDescriptor stop;
  ExamineOptions asked = options(std::chrono::hours(1));
  asked.stop = stop.number();
  const auto found = examine(data.here(), {0}, asked, [&](const Finding& each) {
    if (each.sentence.find("is free") != std::string::npos) stop.raise();
  });
  EXPECT_EQ(found.status().code(), Code::kCancelled);
}

TEST(Examination, EndsInTheMiddleOfAPeerWhenAskedTo) {
  const NodeData data(plan_on_free_ports(2));
  const EventDescriptor stop;
  const FakePeer mute(data.here().plan.pool.nodes[1].address.port, [&](Socket socket, const Wait& wait) {
    stop.raise();
    (void)wait_for(socket.descriptor(), POLLHUP, wait);
  });
  ExamineOptions asked = options(std::chrono::hours(1));
  asked.patience = std::chrono::hours(1);
  asked.stop = stop.number();
  EXPECT_EQ(examine(data.here(), {0}, asked).status().code(), Code::kCancelled);
}

TEST(Summary, CountsWhatIsWrong) {
  const Finding ok{Severity::kOk, "", ""};
  const Finding warning{Severity::kWarning, "", ""};
  const Finding problem{Severity::kProblem, "", ""};
  EXPECT_EQ(summary({ok}), "1 check: all is well");
  EXPECT_EQ(summary({ok, warning}), "2 checks: no problem, 1 warning");
  EXPECT_EQ(summary({problem, warning, warning}), "3 checks: 1 problem, 2 warnings");
  EXPECT_EQ(summary({problem, problem}), "2 checks: 2 problems");
}

}  // namespace
}  // namespace ravnest::doctor
