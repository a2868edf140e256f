// What becomes of a round where clusters are lost, or do not reach each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/average/testing/agreement.h"

namespace ravnest::average {
namespace {

using testing::ElementsAre;

TEST(AgreementLosses, WhereAParticipantIsLostTheOthersTryAgainWithWhatTheyEntered) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[0].attempt;
  clusters.complete(0);
  clusters.crash(1);
  EXPECT_GT(clusters.begun[2].attempt, first);
  EXPECT_THAT(clusters.participants(2), ElementsAre(0, 2));
  clusters.complete(2);
  EXPECT_TRUE(clusters.held.empty());
  clusters.complete(0);
  EXPECT_THAT(clusters.held[2], ElementsAre(1));
}

TEST(AgreementLosses, WhereTheLeaderIsLostTheNextOneDecides) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.crash(0);
  EXPECT_EQ(clusters[1].leader(), 1);
  EXPECT_EQ(clusters[2].leader(), 1);
  EXPECT_THAT(clusters.participants(2), ElementsAre(1, 2));
}

TEST(AgreementLosses, ANewLeaderWaitsUntilAllFollowIt) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[1].attempt;
  clusters.lose(1, 0);
  EXPECT_EQ(clusters[1].leader(), 1);
  EXPECT_EQ(clusters.begun[1].attempt, first);
  clusters.lose(2, 0);
  EXPECT_GT(clusters.begun[1].attempt, first);
}

// It may hold what this one does not know of.
TEST(AgreementLosses, ANewLeaderWaitsForAParticipantThatItHasNotSeenYet) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.connect(0, 2);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1, 2));
  clusters.crash(0);
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1, 2));
  clusters.connect(1, 2);
  EXPECT_THAT(clusters.participants(1), ElementsAre(1, 2));
  EXPECT_EQ(clusters.begun[1], clusters.begun[2]);
}

TEST(AgreementLosses, PatienceEndsWhenSomethingChanges) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[1].attempt;
  const std::uint64_t changes = clusters[1].changes();
  clusters.act(1, clusters[1].begin_without_the_unseen());
  clusters.lose(1, 0);
  EXPECT_GT(clusters[1].changes(), changes);
  EXPECT_EQ(clusters.begun[1].attempt, first);
  clusters.act(1, clusters[1].begin_without_the_unseen());
  EXPECT_THAT(clusters.participants(1), ElementsAre(1));
}

TEST(AgreementLosses, ACommitThatReachedOneReachesAll) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.hold_back<wire::CommitAttempt>(1);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters.held[2], ElementsAre(1));
  clusters.crash(0);
  EXPECT_THAT(clusters.held[1], ElementsAre(1));
}

TEST(AgreementLosses, ACommitThatReachedNobodyIsNone) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.hold_back<wire::CommitAttempt>(1);
  clusters.hold_back<wire::CommitAttempt>(2);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters.held[0], ElementsAre(1));
  clusters.crash(0);
  EXPECT_TRUE(clusters.held[1].empty());
  EXPECT_THAT(clusters.participants(2), ElementsAre(1, 2));
}

TEST(AgreementLosses, AClusterThatOthersDoNotReachIsOut) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(1, clusters[1].missing(2));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1));
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_TRUE(clusters[2].newcomer());
  EXPECT_EQ(clusters[2].round(), 2U);
}

TEST(AgreementLosses, WhoDoesNotReachTheLeaderIsOutItself) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(2, clusters[2].missing(0));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1));
}

TEST(AgreementLosses, OfTwoThatMissEachOtherOneStays) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t attempt = clusters.begun[0].attempt;
  clusters.hold_back<ClusterState>(0);
  clusters.act(1, clusters[1].missing(2));
  clusters.act(2, clusters[2].missing(1));
  clusters.let_through(0);
  EXPECT_GT(clusters.begun[0].attempt, attempt);
  EXPECT_THAT(clusters.participants(0), ElementsAre(0, 1));
}

TEST(AgreementLosses, WhoIsCutOffFromTheLeaderGoesOnAloneAndComesBackAsANewcomer) {
  Clusters clusters(3);
  clusters.hold_round();
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.lose(1, 0);
  clusters.lose(0, 1);
  EXPECT_THAT(clusters.participants(2), ElementsAre(0, 2));
  EXPECT_THAT(clusters.participants(1), ElementsAre(0, 1, 2));
  clusters.act(1, clusters[1].begin_without_the_unseen());
  EXPECT_THAT(clusters.participants(1), ElementsAre(1));
  clusters.complete(1);
  EXPECT_THAT(clusters.held[1], ElementsAre(1, 2));
  for (const int i : {0, 2}) clusters.complete(i);
  EXPECT_EQ(clusters.outs[1], 0);
  clusters.connect(0, 1);
  EXPECT_EQ(clusters.outs[1], 1);
  EXPECT_TRUE(clusters[1].newcomer());
  EXPECT_EQ(clusters[1].leader(), 0);
  clusters.hold_round(2);
  EXPECT_THAT(clusters.weights(2), ElementsAre(2, 0, 2));
}

TEST(AgreementLosses, NoTwoAttemptsHaveTheSameNumber) {
  Clusters clusters(2);
  for (int i = 0; i < 2; ++i) clusters.enter(i);
  clusters.lose(0, 1);
  clusters.lose(1, 0);
  EXPECT_NE(clusters.begun[0].attempt, clusters.begun[1].attempt);
}

TEST(AgreementLosses, TheSmallerOfTwoGroupsYields) {
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
  EXPECT_EQ(clusters[0].leader(), 1);
  EXPECT_EQ(clusters[0].round(), 2U);
  EXPECT_FALSE(clusters[1].newcomer());
}

}  // namespace
}  // namespace ravnest::average
