#include "ravnest/cluster/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>

#include "ravnest/cluster/testing/driver.h"

namespace ravnest::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::PassKind;

TEST(Driver, AChainComputesEveryPassOnceAndInOrder) {
  StubCluster cluster(4);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(cluster.offer({.batch = i}).ok());
  ASSERT_TRUE(cluster.drain().ok());
  for (const Status& ended : cluster.finish()) EXPECT_TRUE(ended.ok()) << ended;
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(cluster.worker(stage).forwards(), up_to(200)) << stage;
    EXPECT_EQ(cluster.worker(stage).backwards(), up_to(200)) << stage;
    EXPECT_EQ(cluster.worker(stage).updates(), 200) << stage;
  }
  EXPECT_EQ(cluster.reports(), up_to(200));
}

TEST(Driver, ValidationComesAfterTheTrainingBeforeIt) {
  StubCluster cluster(3);
  for (std::uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(cluster.offer({.kind = i % 3 == 2 ? PassKind::kValidate : PassKind::kTrain, .batch = i}).ok());
  }
  ASSERT_TRUE(cluster.drain().ok());
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(cluster.worker(stage).forwards(), up_to(60));
    EXPECT_EQ(cluster.worker(stage).updates(), 40);
  }
  EXPECT_EQ(cluster.worker(2).updates_at_forward(59), 40);
}

TEST(Driver, SnapshotsForACheckpointAreTakenByAllStagesAfterTheSameUpdate) {
  for (const auto schedule : {stage::Schedule::kAsync, stage::Schedule::kSync, stage::Schedule::kGpipe}) {
    StubCluster cluster(3, {.schedule = schedule});
    for (std::uint64_t i = 0; i < 30; ++i)
      ASSERT_TRUE(cluster.offer({.batch = i, .checkpoint = i % 10 == 4 ? i + 1 : 0}).ok());
    ASSERT_TRUE(cluster.offer({.kind = PassKind::kValidate, .batch = 30, .update = false}).ok());
    ASSERT_TRUE(cluster.offer({.kind = PassKind::kSnapshot, .batch = 31, .update = false, .checkpoint = 31}).ok());
    ASSERT_TRUE(cluster.offer({.batch = 32}).ok());
    for (const Status& outcome : cluster.finish()) EXPECT_TRUE(outcome.ok()) << outcome;
    for (int stage = 0; stage < 3; ++stage)
      EXPECT_THAT(cluster.worker(stage).snapshots(), ElementsAre(5, 5, 15, 15, 25, 25, 31, 30));
  }
}

TEST(Driver, ACallEndsOnAllStagesAndTheNextOneGoesOn) {
  StubCluster cluster(3);
  for (int call = 0; call < 3; ++call) {
    if (call > 0) cluster.run_again();
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(cluster.offer({.batch = i}).ok());
    for (const Status& ended : cluster.finish()) EXPECT_TRUE(ended.ok()) << ended;
    EXPECT_EQ(cluster.worker(1).forwards(), up_to(10 * (call + 1)));
  }
}

TEST(Driver, AFailureInAnyStageEndsAllWithItsSentence) {
  for (int broken = 0; broken < 4; ++broken) {
    for (const auto where : {stage::WorkKind::kForward, stage::WorkKind::kBackward, stage::WorkKind::kUpdate}) {
      StubCluster cluster(4);
      cluster.worker(broken).fail_at(where, 7, "ran out of memory");
      cluster.offer_until_failure();
      const std::string expected = text("node_", broken, " (stage ", broken, ") failed: ran out of memory");
      for (const Status& ended : cluster.finish()) EXPECT_EQ(ended.message(), expected);
      EXPECT_EQ(cluster.offer({}).message(), expected);
      EXPECT_EQ(cluster.drain().message(), expected);
    }
  }
}

TEST(Driver, WhenAllPassesAreDoneEveryStageDoesTheRestWhateverBecomesOfTheOthers) {
  for (int broken = 0; broken < 3; ++broken) {
    std::array<std::atomic<int>, 3> done = {};
    StubCluster cluster(3, {.on_over = [&](int stage) -> Result<wire::Account> {
                          ++done[static_cast<std::size_t>(stage)];
                          if (stage == broken) return unavailable("the disk is full");
                          return wire::Account();
                        }});
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(cluster.offer({.batch = i}).ok());
    const std::string expected = text("node_", broken, " (stage ", broken, ") failed: the disk is full");
    for (const Status& ended : cluster.finish()) EXPECT_EQ(ended.message(), expected);
    for (const auto& each : done) EXPECT_EQ(each, 1);
  }
}

// The root is at its last update, and the others are through, when one of them is interrupted.
TEST(Driver, WhatFailsWhenTrainingIsOverCostsNobodyTheRestThoughTheRootHasNotSaidThatItIs) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::array<std::atomic<int>, 3> done = {};
    StubCluster cluster(3, {.on_over = [&](int stage) -> Result<wire::Account> {
                          ++done[static_cast<std::size_t>(stage)];
                          return wire::Account();
                        }});
    cluster.worker(0).hold_at(stage::WorkKind::kUpdate, 0);
    ASSERT_TRUE(cluster.offer({.batch = 0}).ok());
    cluster.worker(0).wait_for_hold();
    cluster.worker(1).wait_for_updates(1);
    cluster.worker(2).wait_for_updates(1);
    const auto heard = [&] { return cluster.endpoint(0).statistics("node_1")->messages_received; };
    const std::uint64_t before = heard();
    cluster.driver(1).stop("was interrupted");
    for (const TimePoint deadline = soon(); heard() == before; std::this_thread::yield())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    cluster.driver(0).finish();
    cluster.worker(0).go_on();
    for (const Status& ended : cluster.finish()) EXPECT_EQ(ended.message(), "node_1 (stage 1) was interrupted");
    for (const auto& each : done) EXPECT_EQ(each, 1);
  }
}

TEST(Driver, AStageWhoseLastUpdateFailsWhenTrainingIsOverSavesNothingAndEnds) {
  std::array<std::atomic<int>, 3> done = {};
  std::promise<void> told;  // that training is over
  StubCluster cluster(3, {.ties = {{1, 2}}, .on_over = [&](int stage) -> Result<wire::Account> {
                            if (++done[static_cast<std::size_t>(stage)] == 1 && stage == 0) told.set_value();
                            return wire::Account();
                          }});
  cluster.worker(1).fail_at(stage::WorkKind::kUpdate, 0, "ran out of memory");
  cluster.worker(2).hold_at(stage::WorkKind::kUpdate, 0);  // which stage 1 waits for with its own
  ASSERT_TRUE(cluster.offer({.batch = 0}).ok());
  ASSERT_TRUE(cluster.drain().ok());
  auto going_on = std::async(std::launch::async, [&] {
    told.get_future().wait();
    cluster.worker(2).go_on();
  });
  for (const Status& ended : cluster.finish()) EXPECT_EQ(ended.message(), "node_1 (stage 1) failed: ran out of memory");
  EXPECT_EQ(done[0], 1);
  EXPECT_EQ(done[1], 0);
}

TEST(Driver, WhoOffersAfterAFailureHearsAsWellThatTheStageCouldNotBeSaved) {
  StubCluster cluster(2, {.on_over = [](int stage) -> Result<wire::Account> {
                        if (stage == 1) return unavailable("the disk is full");
                        return wire::Account{.unsaved = "node_0 could not be saved"};
                      }});
  const std::string expected = "node_1 (stage 1) failed: the disk is full; and node_0 could not be saved";
  EXPECT_EQ(cluster.finish()[0].message(), expected);
  EXPECT_EQ(cluster.offer({}).message(), expected);
  EXPECT_EQ(cluster.drain().message(), expected);
}

TEST(Driver, AnExceptionIsAFailureToo) {
  StubCluster cluster(2);
  cluster.worker(1).throw_at(3, "the criterion divides by zero");
  cluster.offer_until_failure();
  for (const Status& ended : cluster.finish()) {
    EXPECT_EQ(ended.message(), "node_1 (stage 1) failed: the criterion divides by zero");
  }
}

TEST(Driver, StoppingAnyStageEndsAll) {
  for (int stopped = 0; stopped < 3; ++stopped) {
    StubCluster cluster(3);
    auto stopping = std::async(std::launch::async, [&] {
      cluster.worker(2).wait_for_forwards(20);
      cluster.driver(stopped).stop("was interrupted");
    });
    cluster.offer_until_failure();
    for (const Status& ended : cluster.finish()) {
      EXPECT_EQ(ended.message(), text("node_", stopped, " (stage ", stopped, ") was interrupted"));
    }
    stopping.get();
  }
}

TEST(Driver, AStageThatDiesIsNamedByAllOthers) {
  for (int dead = 0; dead < 3; ++dead) {
    StubCluster cluster(3);
    auto dying = std::async(std::launch::async, [&] {
      cluster.worker(2).wait_for_forwards(20);
      cluster.kill(dead);
    });
    cluster.offer_until_failure();
    const std::vector<Status> ended = cluster.finish();
    dying.get();
    for (int stage = 0; stage < 3; ++stage) {
      if (stage == dead) continue;
      EXPECT_THAT(ended[static_cast<std::size_t>(stage)].message(),
                  HasSubstr(text("node_", dead, " (stage ", dead, ")")));
    }
  }
}

TEST(Driver, AMessageThatDoesNotFitEndsTheRun) {
  StubCluster cluster(3);
  wire::Forward stray;
  stray.head.pass = 1000;
  stray.stage = 0;
  ASSERT_TRUE(cluster.endpoint(0).send("node_2", stray, transport::Priority::kNormal).ok());
  cluster.offer_until_failure();
  for (const Status& ended : cluster.finish()) {
    EXPECT_THAT(ended.message(), HasSubstr("node_2 (stage 2) failed: a message from node_0 does not fit"));
  }
}

TEST(Driver, MessagesBeyondAPeersQueueWaitAndArrive) {
  StubClusterOptions options;
  options.tensor_bytes = 50'000;
  options.session.queue_bytes = 60'000;
  options.session.window_bytes = 60'000;
  options.window = 8;
  StubCluster cluster(3, options);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(cluster.offer({.batch = i}).ok());
  ASSERT_TRUE(cluster.drain().ok());
  for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(cluster.worker(stage).backwards(), up_to(100));
}

TEST(Driver, NobodyOffersMoreThanFits) {
  StubCluster cluster(2);
  cluster.worker(1).hold();
  for (int i = 0; i < 2 + 2; ++i) ASSERT_TRUE(cluster.offer({}).ok());  // the window, and those ahead of it
  EXPECT_EQ(cluster.offer({}, std::chrono::milliseconds(50)).code(), Code::kDeadline);
  cluster.worker(1).go_on();
}

TEST(Driver, TiedWeightsAreSummedAndHandedBack) {
  for (const stage::Schedule schedule : {stage::Schedule::kAsync, stage::Schedule::kSync}) {
    StubClusterOptions options;
    options.schedule = schedule;
    options.ties = {{0, 2}, {1, 2}};
    StubCluster cluster(3, options);
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(cluster.offer({.batch = i}).ok());
    for (const Status& ended : cluster.finish()) EXPECT_TRUE(ended.ok()) << ended;
    EXPECT_EQ(cluster.worker(0).tied_gradients(), 50);
    EXPECT_EQ(cluster.worker(1).tied_gradients(), 50);
    EXPECT_EQ(cluster.worker(2).adopted(0), 50);
    EXPECT_EQ(cluster.worker(2).adopted(1), 50);
  }
}

}  // namespace
}  // namespace ravnest::cluster
