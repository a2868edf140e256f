#include "ravnest/average/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "ravnest/average/testing/agreement.h"

namespace ravnest::average {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Agreement, OneClusterHoldsItsRoundsAlone) {
  Clusters clusters(1);
  clusters.hold_round();
  clusters.hold_round();
  EXPECT_THAT(clusters.held[0], ElementsAre(1, 2));
}

TEST(Agreement, AnAttemptBeginsWhenAllHaveEntered) {
  Clusters clusters(3);
  clusters.enter(0);
  clusters.enter(1);
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(2));
  clusters.enter(2);
  EXPECT_THAT(clusters.participants(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(clusters.begun[0], clusters.begun[2]);
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(1, 2)) << "for their results";
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(1, 2)) << "for them to enter the next round";
}

TEST(Agreement, ARoundHoldsWhenAllHaveTheResult) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.complete(0);
  clusters.complete(2);
  EXPECT_TRUE(clusters.held.empty());
  clusters.complete(1);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(clusters.held[i], ElementsAre(1));
  EXPECT_EQ(clusters[1].round(), 2U);
}

TEST(Agreement, TheLowestClusterIsTheFirstLeader) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clusters[i].leader(), 0);
  EXPECT_THAT(clusters[2].members(), ElementsAre(0, 1, 2));
}

TEST(Agreement, WeightsAreThoseThatWereGiven) {
  Clusters clusters(2);
  clusters.enter(0, 3);
  clusters.enter(1, 5);
  EXPECT_THAT(clusters.weights(1), ElementsAre(3, 5));
}

TEST(Agreement, WhereNobodyHasAWeightAllCountAlike) {
  Clusters clusters(2);
  clusters.enter(0, 0);
  clusters.enter(1, 0);
  EXPECT_THAT(clusters.weights(0), ElementsAre(1, 1));
}

TEST(Agreement, TheFirstAttemptWaitsForClustersThatWereNeverSeen) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.enter(0);
  clusters.enter(1);
  EXPECT_TRUE(clusters.begun.empty());
  clusters.act(0, clusters[0].begin_without_the_unseen());
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1));
}

TEST(Agreement, AResultOfAnotherAttemptDoesNotCount) {
  Clusters clusters(2);
  clusters.enter(0);
  clusters.enter(1);
  clusters.complete(0);
  clusters.act(1, clusters[1].complete(clusters.begun[1].attempt + 1));
  EXPECT_TRUE(clusters.held.empty());
}

TEST(Agreement, ACommitWithoutTheResultIsIgnored) {
  Clusters clusters(2);
  clusters.enter(0);
  clusters.enter(1);
  const wire::CommitAttempt commit{.round = 1, .attempt = clusters.begun[1].attempt};
  clusters.act(1, clusters[1].on_message(0, commit));
  EXPECT_TRUE(clusters.held[1].empty());
  EXPECT_EQ(clusters[1].ignored(), 1U);
}

TEST(Agreement, OnlyTheLeaderBeginsAttempts) {
  Clusters clusters(3);
  const Attempt attempt{.round = 1, .attempt = 100, .participants = {{1, 1.0}, {2, 1.0}}};
  clusters.act(2, clusters[2].on_message(1, attempt));
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_EQ(clusters[2].ignored(), 1U);
}

TEST(Agreement, WhatNamesClustersThatDoNotExistIsIgnored) {
  Clusters clusters(2);
  ClusterState state;
  state.leader = 9;
  EXPECT_THAT(clusters[0].on_message(1, state), IsEmpty());
  state.leader = 0;
  state.companions = {7};
  EXPECT_THAT(clusters[0].on_message(1, state), IsEmpty());
  EXPECT_THAT(clusters[0].on_message(-1, {}), IsEmpty());
  EXPECT_THAT(clusters[0].on_message(0, {}), IsEmpty());
  EXPECT_EQ(clusters[0].ignored(), 4U);
}

// What counts on from them would begin again at 0, and the next attempt would not be above the last.
TEST(Agreement, NumbersThatNoRunReachesAreIgnored) {
  constexpr std::uint64_t kGreatest = std::numeric_limits<std::uint64_t>::max();
  Clusters clusters(2);
  for (const std::uint64_t beyond : {kGreatest, kGreatest - 1, (std::uint64_t{1} << 62) + 1}) {
    EXPECT_THAT(clusters[0].on_message(1, ClusterState{.round = 1, .attempt = beyond}), IsEmpty());
    EXPECT_THAT(clusters[0].on_message(1, ClusterState{.round = beyond}), IsEmpty());
    EXPECT_THAT(clusters[1].on_message(0, Attempt{.round = 1, .attempt = beyond, .participants = {{1, 1.0}}}),
                IsEmpty());
  }
  EXPECT_EQ(clusters[0].ignored(), 6U);
  EXPECT_EQ(clusters[1].ignored(), 3U);
  clusters.hold_round();
  EXPECT_THAT(clusters.held[0], ElementsAre(1));
  EXPECT_LT(clusters.begun[0].attempt, 10U) << "an attempt counts on from those that fit";
}

TEST(Agreement, WhoComesLaterIsANewcomerWithoutWeight) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.act(0, clusters[0].begin_without_the_unseen());
  for (const int i : {0, 1}) clusters.enter(i, 4);
  for (const int i : {0, 1}) clusters.complete(i);
  clusters.connect(0, 2);
  clusters.connect(1, 2);
  EXPECT_TRUE(clusters[2].newcomer());
  EXPECT_EQ(clusters[2].round(), 2U);
  for (const int i : {2, 1, 0}) clusters.enter(i, 4);
  EXPECT_THAT(clusters.weights(2), ElementsAre(4, 4, 0));
  EXPECT_TRUE(clusters.begun[0].whole);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_FALSE(clusters[2].newcomer());
  EXPECT_THAT(clusters.held[2], ElementsAre(2));
}

TEST(Agreement, ARoundInWhichNobodyTrainedIsOfTheWeightsThemselves) {
  Clusters clusters(2);
  for (const double weight : {0.0, 4.0}) {
    for (const int i : {0, 1}) clusters.enter(i, weight);
    EXPECT_THAT(clusters.weights(0), Each(weight > 0 ? weight : 1));
    EXPECT_EQ(clusters.begun[0].whole, weight == 0);
    for (const int i : {0, 1}) clusters.complete(i);
  }
}

TEST(Agreement, ANewcomerDoesNotTakeTheLeader) {
  Clusters clusters(3, false);
  clusters.connect(1, 2);
  clusters.act(1, clusters[1].begin_without_the_unseen());
  for (const int i : {1, 2}) clusters.enter(i);
  for (const int i : {1, 2}) clusters.complete(i);
  clusters.connect(0, 1);
  clusters.connect(0, 2);
  EXPECT_EQ(clusters[0].leader(), 1);
  clusters.hold_round();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clusters[i].leader(), 1);
}

TEST(Agreement, TheOthersAreCalledWhenANewcomerHasEntered) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.act(0, clusters[0].begin_without_the_unseen());
  for (const int i : {0, 1}) clusters.enter(i);
  for (const int i : {0, 1}) clusters.complete(i);
  clusters.connect(0, 2);
  clusters.connect(1, 2);
  EXPECT_FALSE(clusters[1].called());
  clusters.enter(2);
  EXPECT_TRUE(clusters[0].called());
  EXPECT_TRUE(clusters[1].called());
  EXPECT_EQ(clusters.sent<wire::CallRound>(1), 1);
  clusters.enter(0);
  clusters.enter(1);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_FALSE(clusters[1].called());
}

TEST(Agreement, NobodyWaitsForANewcomerToEnter) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.act(0, clusters[0].begin_without_the_unseen());
  for (const int i : {0, 1}) clusters.enter(i);
  for (const int i : {0, 1}) clusters.complete(i);
  clusters.connect(0, 2);
  clusters.connect(1, 2);
  for (const int i : {0, 1}) clusters.enter(i);
  EXPECT_THAT(clusters.participants(0), ElementsAre(0, 1));
}

TEST(Agreement, WhoHasFinishedIsInEveryRoundAndCountsOnce) {
  Clusters clusters(2);
  clusters.finish(1, 7);
  clusters.enter(0, 3);
  EXPECT_THAT(clusters.weights(0), ElementsAre(3, 7));
  EXPECT_FALSE(clusters.begun[0].last);
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  clusters.enter(0, 3);
  EXPECT_THAT(clusters.weights(0), ElementsAre(3, 0));
}

TEST(Agreement, WhenAllHaveFinishedALastRoundIsHeldAndNoMore) {
  Clusters clusters(2);
  clusters.finish(0);
  clusters.finish(1);
  EXPECT_TRUE(clusters.begun[1].last);
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_TRUE(clusters.last[0]);
  EXPECT_EQ(clusters.begun[0].round, 1U);
  EXPECT_EQ(clusters[0].round(), 2U);
}

TEST(Agreement, WhoFinishesDuringARoundEntersTheNextWithThatWeight) {
  Clusters clusters(2);
  clusters.enter(0, 3);
  clusters.enter(1, 4);
  clusters.finish(1, 5);
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_FALSE(clusters.last[1]);
  clusters.finish(0, 6);
  EXPECT_THAT(clusters.weights(0), ElementsAre(6, 5));
  EXPECT_TRUE(clusters.begun[0].last);
}

TEST(Agreement, WhoResumesIsWaitedForAgain) {
  Clusters clusters(2);
  clusters.finish(1);
  clusters.act(1, clusters[1].resume());
  clusters.enter(0);
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(1));
  clusters.enter(1);
  EXPECT_FALSE(clusters.begun.empty());
}

}  // namespace
}  // namespace ravnest::average
