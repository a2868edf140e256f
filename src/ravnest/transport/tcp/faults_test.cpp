// A short run of what `make soak` does a thousand times.
#include "ravnest/transport/tcp/testing/faults.h"

#include <gtest/gtest.h>

namespace ravnest::transport::tcp {
namespace {

TEST(Faults, NothingIsLostByConnectionsCutAtAnyByte) {
  const FaultsOutcome outcome = survive_cuts(40, 1, false);
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GE(outcome.faults, 40);
  EXPECT_GT(outcome.connections, 10);
  EXPECT_EQ(outcome.losses, 0);
}

TEST(Faults, NothingIsLostByConnectionsCutAtAnyByteUnderTls) {
  const FaultsOutcome outcome = survive_cuts(40, 2, true);
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GE(outcome.faults, 40);
  EXPECT_GT(outcome.connections, 10);
  EXPECT_EQ(outcome.losses, 0);
}

TEST(Faults, WhatAKilledProcessTookWithItIsReported) {
  const FaultsOutcome outcome = survive_kills(20, 3, ECHO_NODE);
  EXPECT_EQ(outcome.violation, "");
  EXPECT_EQ(outcome.faults, 20);
  EXPECT_GT(outcome.losses, 5);
  EXPECT_GT(outcome.arrived, 100);
}

}  // namespace
}  // namespace ravnest::transport::tcp
