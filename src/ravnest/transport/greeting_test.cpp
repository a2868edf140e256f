#include "ravnest/transport/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::transport {
namespace {

using testing::HasSubstr;

// node_1 is greeted by node_2, both of plan p.
class GreetingTest : public testing::Test {
 protected:
  GreetingTest() {
    hello_.plan = "p";
    hello_.from = "node_2";
    hello_.to = "node_1";
    hello_.session = 5;
  }
  std::string refusal() const {
    const Status status = check_greeting(greeter_, hello_);
    EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid) << status;
    return status.message();
  }

  Greeter greeter_{.self = "node_1", .plan = "p", .expected = "", .certified = "node_2"};
  wire::Hello hello_;
};

TEST_F(GreetingTest, APeerOfThePlanIsWelcome) {
  EXPECT_EQ(refusal(), "");
  greeter_.expected = "node_2";
  EXPECT_EQ(refusal(), "");
  greeter_.certified = "";
  EXPECT_EQ(refusal(), "");
}

TEST_F(GreetingTest, TheCertificateDecidesWhoItIs) {
  hello_.from = "node_3";
  EXPECT_EQ(refusal(), "the certificate of node_2 is used by a node that calls itself node_3");
}

TEST_F(GreetingTest, AnotherPlanIsRefused) {
  hello_.plan = "q";
  EXPECT_THAT(refusal(), HasSubstr("node_2 is of plan q, node_1 of plan p"));
}

TEST_F(GreetingTest, SomeoneElseThanWasDialledIsRefused) {
  greeter_.expected = "node_3";
  EXPECT_THAT(refusal(), HasSubstr("node_2 answers where node_3 should be"));
}

TEST_F(GreetingTest, SomeoneWhoLooksForAnotherIsRefused) {
  hello_.to = "node_9";
  EXPECT_THAT(refusal(), HasSubstr("node_2 looks for node_9 where node_1 is"));
}

TEST_F(GreetingTest, ANodeDoesNotTalkToItself) {
  hello_.from = "node_1";
  greeter_.certified = "node_1";
  EXPECT_THAT(refusal(), HasSubstr("calls itself node_1 too"));
}

TEST_F(GreetingTest, ASessionNeedsANumberAndAProbeDoesNot) {
  hello_.session = 0;
  EXPECT_THAT(refusal(), HasSubstr("names no session"));
  hello_.purpose = wire::Purpose::kProbe;
  EXPECT_EQ(refusal(), "");
}

TEST_F(GreetingTest, WhatAStrangerSaysIsMadePrintable) {
  greeter_.certified = "";
  hello_.from = "node\n\x1b[31m";
  hello_.plan = "q\r\n";
  EXPECT_EQ(refusal().find_first_of("\n\r\x1b"), std::string::npos);
}

}  // namespace
}  // namespace ravnest::transport
