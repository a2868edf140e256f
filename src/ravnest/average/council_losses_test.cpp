// What becomes of a round where clusters are lost, or do not reach each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/average/testing/council.h"

namespace ravnest::average {
namespace {

using testing::ElementsAre;
using wire::AveragingKind;

TEST(CouncilLosses, WhereASeatIsLostTheOthersTryAgainWithWhatTheyEntered) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[0].attempt;
  clusters.complete(0);
  clusters.crash(1);
  EXPECT_GT(clusters.begun[2].attempt, first);
  EXPECT_THAT(clusters.seats(2), ElementsAre(0, 2));
  clusters.complete(2);
  EXPECT_TRUE(clusters.held.empty());
  clusters.complete(0);
  EXPECT_THAT(clusters.held[2], ElementsAre(1));
}

TEST(CouncilLosses, WhereTheChairIsLostTheNextOneDecides) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.crash(0);
  EXPECT_EQ(clusters[1].chair(), 1);
  EXPECT_EQ(clusters[2].chair(), 1);
  EXPECT_THAT(clusters.seats(2), ElementsAre(1, 2));
}

TEST(CouncilLosses, ANewChairWaitsUntilAllFollowIt) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[1].attempt;
  clusters.lose(1, 0);
  EXPECT_EQ(clusters[1].chair(), 1);
  EXPECT_EQ(clusters.begun[1].attempt, first);
  clusters.lose(2, 0);
  EXPECT_GT(clusters.begun[1].attempt, first);
}

// It may hold what this one does not know of.
TEST(CouncilLosses, ANewChairWaitsForASeatThatItHasNotSeenYet) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.connect(0, 2);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1, 2));
  clusters.crash(0);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1, 2));
  clusters.connect(1, 2);
  EXPECT_THAT(clusters.seats(1), ElementsAre(1, 2));
  EXPECT_EQ(clusters.begun[1], clusters.begun[2]);
}

TEST(CouncilLosses, PatienceEndsWhenSomethingChanges) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[1].attempt;
  const std::uint64_t changes = clusters[1].changes();
  clusters.act(1, clusters[1].begin_without_the_unseen());
  clusters.lose(1, 0);
  EXPECT_GT(clusters[1].changes(), changes);
  EXPECT_EQ(clusters.begun[1].attempt, first);
  clusters.act(1, clusters[1].begin_without_the_unseen());
  EXPECT_THAT(clusters.seats(1), ElementsAre(1));
}

TEST(CouncilLosses, ACommitThatReachedOneReachesAll) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.hold_back(1, AveragingKind::kCommit);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters.held[2], ElementsAre(1));
  clusters.crash(0);
  EXPECT_THAT(clusters.held[1], ElementsAre(1));
}

TEST(CouncilLosses, ACommitThatReachedNobodyIsNone) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.hold_back(1, AveragingKind::kCommit);
  clusters.hold_back(2, AveragingKind::kCommit);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters.held[0], ElementsAre(1));
  clusters.crash(0);
  EXPECT_TRUE(clusters.held[1].empty());
  EXPECT_THAT(clusters.seats(2), ElementsAre(1, 2));
}

TEST(CouncilLosses, AClusterThatOthersDoNotReachIsOut) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(1, clusters[1].missing(2));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1));
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_TRUE(clusters[2].newcomer());
  EXPECT_EQ(clusters[2].round(), 2U);
}

TEST(CouncilLosses, WhoDoesNotReachTheChairIsOutItself) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(2, clusters[2].missing(0));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1));
}

TEST(CouncilLosses, OfTwoThatMissEachOtherOneStays) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t attempt = clusters.begun[0].attempt;
  clusters.hold_back(0, AveragingKind::kStand);
  clusters.act(1, clusters[1].missing(2));
  clusters.act(2, clusters[2].missing(1));
  clusters.let_through(0);
  EXPECT_GT(clusters.begun[0].attempt, attempt);
  EXPECT_THAT(clusters.seats(0), ElementsAre(0, 1));
}

TEST(CouncilLosses, WhoIsCutOffFromTheChairGoesOnAloneAndComesBackAsANewcomer) {
  Clusters clusters(3);
  clusters.hold_round();
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.lose(1, 0);
  clusters.lose(0, 1);
  EXPECT_THAT(clusters.seats(2), ElementsAre(0, 2));
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1, 2));
  clusters.act(1, clusters[1].begin_without_the_unseen());
  EXPECT_THAT(clusters.seats(1), ElementsAre(1));
  clusters.complete(1);
  EXPECT_THAT(clusters.held[1], ElementsAre(1, 2));
  for (const int i : {0, 2}) clusters.complete(i);
  EXPECT_EQ(clusters.outs[1], 0);
  clusters.connect(0, 1);
  EXPECT_EQ(clusters.outs[1], 1);
  EXPECT_TRUE(clusters[1].newcomer());
  EXPECT_EQ(clusters[1].chair(), 0);
  clusters.hold_round(2);
  EXPECT_THAT(clusters.weights(2), ElementsAre(2, 0, 2));
}

TEST(CouncilLosses, NoTwoAttemptsHaveTheSameNumber) {
  Clusters clusters(2);
  for (int i = 0; i < 2; ++i) clusters.enter(i);
  clusters.lose(0, 1);
  clusters.lose(1, 0);
  EXPECT_NE(clusters.begun[0].attempt, clusters.begun[1].attempt);
}

TEST(CouncilLosses, TheSmallerOfTwoGroupsYields) {
  Clusters clusters(3);
  clusters.hold_round();
  clusters.lose(0, 1);
  clusters.lose(1, 0);
  clusters.lose(0, 2);
  clusters.lose(2, 0);
  clusters.enter(0);
  clusters.complete(0);
  clusters.enter(0);
  clusters.complete(0);
  EXPECT_EQ(clusters[0].round(), 4U);
  clusters.connect(0, 1);
  EXPECT_TRUE(clusters[0].newcomer());
  EXPECT_EQ(clusters[0].chair(), 1);
  EXPECT_EQ(clusters[0].round(), 2U);
  EXPECT_FALSE(clusters[1].newcomer());
}

}  // namespace
}  // namespace ravnest::average
