#include "ravnest/doctor/own_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ravnest/doctor/testing/node_data.h"

namespace ravnest::doctor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto is(Severity severity, const std::string& words) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::sentence, HasSubstr(words)));
}

identity::WallTime now() { return std::chrono::system_clock::now(); }
constexpr auto kSixYears = std::chrono::hours(24) * 365 * 6;

class OwnIdentity : public ::testing::Test {
 protected:
  std::vector<Finding> check() const { return check_identity(data_.here(), 0, now()); }
  void replace(const identity::StoredIdentity& identity) const { put_identity(data_.here(), 0, identity); }

  NodeData data_{plan_on_free_ports(2)};
};

TEST_F(OwnIdentity, ThatIsSoundIsWell) {
  EXPECT_THAT(check(), ElementsAre(is(Severity::kOk, "valid now"), is(Severity::kOk, "private")));
}

TEST_F(OwnIdentity, ThatIsMissingIsAProblem) {
  std::filesystem::remove(plan::folder_of(data_.here(), 0) / identity::kCertificateFile);
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "its identity is not here")));
}

TEST_F(OwnIdentity, ThatHasExpiredIsAProblem) {
  replace(tcp::identity_of(identity::Authority::create("test", now() - kSixYears).value(), "node_0"));
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "ran out on"), is(Severity::kOk, "")));
}

TEST_F(OwnIdentity, ThatIsNotValidYetIsAProblem) {
  replace(tcp::identity_of(identity::Authority::create("test", now() + kSixYears).value(), "node_0"));
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "set this machine's clock"), is(Severity::kOk, "")));
}

TEST_F(OwnIdentity, OfAnotherNodeIsAProblem) {
  replace(data_.identity(1));
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "not of node_0 but of another node"), is(Severity::kOk, "")));
}

TEST_F(OwnIdentity, OfTwoAuthoritiesIsAProblem) {
  replace({data_.identity(0).identity, tcp::new_authority().certificate()});
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "they are of two plans"), is(Severity::kOk, "")));
}

TEST_F(OwnIdentity, OfAnotherPlanThanTheOneBesideItIsAProblem) {
  replace(tcp::identity_of(tcp::new_authority("other"), "node_0"));
  EXPECT_THAT(check(), ElementsAre(is(Severity::kProblem, "is of ravnest plan other"), is(Severity::kOk, "")));
}

TEST_F(OwnIdentity, WhoseKeyOthersCanReadIsAProblem) {
  std::filesystem::permissions(plan::folder_of(data_.here(), 0) / identity::kKeyFile, std::filesystem::perms(0640));
  EXPECT_THAT(check(), ElementsAre(is(Severity::kOk, ""), is(Severity::kProblem, "chmod 600")));
}

std::vector<Finding> check_at(const Address& own, const Address& other, const std::optional<Address>& bind = {}) {
  plan::PlanHere here{"node_data", plan_at({own, other})};
  here.plan.pool.nodes[0].bind = bind;
  return check_address(here, 0, Wait::of(kTestTime));
}

TEST(OwnAddress, OfThisMachineIsWell) {
  EXPECT_THAT(check_at({"127.0.0.1", 8080}, {"0.0.0.0", 8081}), ElementsAre(is(Severity::kOk, "of this machine")));
  EXPECT_THAT(check_at({"0.0.0.0", 8080}, {"localhost", 8081}), ElementsAre(is(Severity::kOk, "of this machine")));
}

TEST(OwnAddress, WhoseNameDoesNotResolveIsAProblem) {
  EXPECT_THAT(check_at({"no-such-host.invalid", 8080}, {"127.0.0.1", 8081}),
              ElementsAre(is(Severity::kProblem, "no-such-host.invalid cannot be resolved")));
}

TEST(OwnAddress, OfAnotherMachineIsAProblem) {
  EXPECT_THAT(check_at({"203.0.113.1", 8080}, {"203.0.113.2", 8080}),
              ElementsAre(is(Severity::kProblem, "is not an address of this machine (")));
}

TEST(OwnAddress, OfAnotherMachineThatForwardsIsWell) {
  EXPECT_THAT(check_at({"203.0.113.1", 8080}, {"203.0.113.2", 8080}, Address{"0.0.0.0", 8080}),
              ElementsAre(is(Severity::kOk, "it listens at 0.0.0.0:8080")));
}

TEST(OwnAddress, ThatOthersCannotDialIsAWarning) {
  EXPECT_THAT(
      check_at({"0.0.0.0", 8080}, {"203.0.113.2", 8080}),
      ElementsAre(is(Severity::kWarning, "can be dialled on this machine only, but node_1 (203.0.113.2:8080)")));
}

class OwnPorts : public ::testing::Test {
 protected:
  OwnPort take(int node = 0) {
    return take_port(
        data_.here(), node, kTestRelease, [this](const std::string& asker) { asked_by_ = asker; }, Wait::of(kTestTime));
  }

  std::string asked_by_;
  NodeData data_{plan_on_free_ports(2)};
};

TEST_F(OwnPorts, ThatIsFreeIsTakenAndAnswersQuestions) {
  const OwnPort port = take();
  EXPECT_THAT(port.finding, is(Severity::kOk, "is free"));
  ASSERT_NE(port.listening, nullptr);
  const tcp::Reached reached = tcp::reach(data_.caller(1), peer(data_.here().plan, 0), Wait::of(kTestTime));
  ASSERT_TRUE(reached.status.ok()) << reached.status;
  EXPECT_EQ(asked_by_, "node_1");
}

TEST_F(OwnPorts, NobodyGetsASessionWithWhatOnlyAnswers) {
  const OwnPort port = take();
  const auto node_1 = data_.run(1);
  const TimePoint until = SystemClock().now() + kTestTime;
  std::string reason;
  while (reason.find("node_0 is only being examined") == std::string::npos && SystemClock().now() < until) {
    const auto statistics = node_1->statistics("node_0");
    ASSERT_TRUE(statistics.ok());
    ASSERT_EQ(statistics->state, transport::PeerState::kWaiting);
    reason = statistics->reason;
    std::this_thread::yield();
  }
  EXPECT_THAT(reason, HasSubstr("node_0 is only being examined"));
}

// Were it to dial, node_1 would see a connection.
TEST_F(OwnPorts, WhatOnlyAnswersDialsNobody) {
  const auto listener = Listener::open("127.0.0.1", data_.here().plan.pool.nodes[1].address.port);
  ASSERT_TRUE(listener.ok());
  const OwnPort port = take();
  const auto came = wait_for(listener->descriptor(), POLLIN, Wait::of(std::chrono::milliseconds(500)));
  EXPECT_EQ(came.code(), Code::kDeadline);
}

TEST_F(OwnPorts, WhereTheNodeItselfRunsIsWell) {
  const auto node_0 = data_.run(0);
  const OwnPort port = take();
  EXPECT_THAT(port.finding, is(Severity::kOk, "it is running"));
  EXPECT_EQ(port.listening, nullptr);
}

TEST_F(OwnPorts, TakenByAnotherProgramIsAProblemThatNamesTheProgram) {
  const FakePeer other(data_.here().plan.pool.nodes[0].address.port, [](const Socket&, const Wait&) {});
  EXPECT_THAT(take().finding, AllOf(is(Severity::kProblem, "is taken by doctor_test (process "),
                                    is(Severity::kProblem, text("process ", ::getpid()))));
}

TEST_F(OwnPorts, TakenByAnotherNodeIsAProblemThatNamesTheNode) {
  tcp::Options options = data_.options(1);
  options.listen = data_.here().plan.pool.nodes[0].address;
  const auto node_1 = NodeData::run(std::move(options));
  EXPECT_THAT(take().finding, is(Severity::kProblem, "node_1 answers at"));
}

}  // namespace
}  // namespace ravnest::doctor
