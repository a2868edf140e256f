#include "ravnest/collective/council.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <vector>

namespace ravnest::collective {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::Averaging;
using wire::AveragingKind;

// Councils that hear each other at once, unless a message is held back.
class Clusters {
 public:
  explicit Clusters(int count, bool connected = true) {
    for (int i = 0; i < count; ++i) councils_.emplace_back(i, count);
    for (int a = 0; a < count && connected; ++a) {
      for (int b = a + 1; b < count; ++b) connect(a, b);
    }
  }

  Council& operator[](int index) { return councils_[static_cast<std::size_t>(index)]; }

  void connect(int a, int b) {
    links_[{a, b}] = links_[{b, a}] = true;
    take(a, (*this)[a].on_peer(b, true));
    take(b, (*this)[b].on_peer(a, true));
    deliver();
  }
  // What is under way between them is gone; who hears of it when is up to the test.
  void cut(int a, int b) {
    links_[{a, b}] = links_[{b, a}] = false;
    std::erase_if(messages_, [&](const Message& m) { return !links_[{m.from, m.to}]; });
  }
  void lose(int at, int lost) {
    cut(at, lost);
    take(at, (*this)[at].on_peer(lost, false));
    deliver();
  }
  void crash(int index) {
    for (int other = 0; other < count(); ++other) {
      if (other != index && links_[{index, other}]) lose(other, index);
    }
  }
  // Of this kind, from then on nothing arrives at the cluster.
  void hold_back(int to, AveragingKind kind) { held_back_[to] = kind; }
  void let_through(int to) {
    held_back_.erase(to);
    deliver();
  }

  void enter(int index, double weight = 1) { act(index, (*this)[index].enter(weight)); }
  void finish(int index, double weight = 1) { act(index, (*this)[index].finish(weight)); }
  void complete(int index) { act(index, (*this)[index].complete(begun[index].attempt)); }
  void act(int index, Council::Actions actions) {
    take(index, std::move(actions));
    deliver();
  }
  void hold_round(double weight = 1) {
    for (int i = 0; i < count(); ++i) enter(i, weight);
    for (int i = 0; i < count(); ++i) complete(i);
  }

  int count() const { return static_cast<int>(councils_.size()); }
  std::vector<int> seats(int index) {
    std::vector<int> seats;
    for (const wire::Seat& seat : begun[index].seats) seats.push_back(static_cast<int>(seat.cluster));
    return seats;
  }
  std::vector<double> weights(int index) {
    std::vector<double> weights;
    for (const wire::Seat& seat : begun[index].seats) weights.push_back(seat.weight);
    return weights;
  }

  std::map<int, Attempt> begun;                    // the last
  std::map<int, std::vector<std::uint64_t>> held;  // rounds
  std::map<int, bool> last;                        // of the last one that held
  std::map<int, int> outs;
  std::map<std::pair<int, AveragingKind>, int> sent;  // by receiver

 private:
  struct Message {
    int from = 0;
    int to = 0;
    Averaging message;
  };

  void take(int index, Council::Actions actions) {
    for (Council::Action& action : actions) {
      if (auto* send = std::get_if<Council::Send>(&action)) {
        ++sent[{send->to, send->message.kind}];
        if (links_[{index, send->to}]) messages_.push_back({index, send->to, std::move(send->message)});
      } else if (auto* begin = std::get_if<Council::Begin>(&action)) {
        begun[index] = begin->attempt;
      } else if (auto* holds = std::get_if<Council::Holds>(&action)) {
        held[index].push_back(holds->round);
        last[index] = holds->last;
      } else {
        ++outs[index];
      }
    }
  }

  void deliver() {
    std::map<int, bool> stopped;
    for (std::size_t i = 0; i < messages_.size();) {
      const auto back = held_back_.find(messages_[i].to);
      if (back != held_back_.end() && back->second == messages_[i].message.kind) stopped[messages_[i].to] = true;
      if (stopped[messages_[i].to]) {
        ++i;
        continue;
      }
      const Message next = messages_[i];
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
      take(next.to, (*this)[next.to].on_message(next.from, next.message));
      i = 0;
      stopped.clear();
    }
  }

  std::vector<Council> councils_;
  std::map<std::pair<int, int>, bool> links_;
  std::map<int, AveragingKind> held_back_;
  std::deque<Message> messages_;
};

TEST(Council, OneClusterHoldsItsRoundsAlone) {
  Clusters clusters(1);
  clusters.hold_round();
  clusters.hold_round();
  EXPECT_THAT(clusters.held[0], ElementsAre(1, 2));
}

TEST(Council, AnAttemptBeginsWhenAllHaveEntered) {
  Clusters clusters(3);
  clusters.enter(0);
  clusters.enter(1);
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(2));
  clusters.enter(2);
  EXPECT_THAT(clusters.seats(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(clusters.begun[0], clusters.begun[2]);
  EXPECT_THAT(clusters[0].waiting_for(), IsEmpty());
}

TEST(Council, ARoundHoldsWhenAllHaveTheResult) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.complete(0);
  clusters.complete(2);
  EXPECT_TRUE(clusters.held.empty());
  clusters.complete(1);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(clusters.held[i], ElementsAre(1));
  EXPECT_EQ(clusters[1].round(), 2U);
}

TEST(Council, TheLowestClusterIsTheFirstChair) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clusters[i].chair(), 0);
  EXPECT_THAT(clusters[2].members(), ElementsAre(0, 1, 2));
}

TEST(Council, WeightsAreThoseThatWereGiven) {
  Clusters clusters(2);
  clusters.enter(0, 3);
  clusters.enter(1, 5);
  EXPECT_THAT(clusters.weights(1), ElementsAre(3, 5));
}

TEST(Council, WhereNobodyHasAWeightAllCountAlike) {
  Clusters clusters(2);
  clusters.enter(0, 0);
  clusters.enter(1, 0);
  EXPECT_THAT(clusters.weights(0), ElementsAre(1, 1));
}

TEST(Council, TheFirstAttemptWaitsForClustersThatWereNeverSeen) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.enter(0);
  clusters.enter(1);
  EXPECT_TRUE(clusters.begun.empty());
  clusters.act(0, clusters[0].begin_without_the_unseen());
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1));
}

TEST(Council, AResultOfAnotherAttemptDoesNotCount) {
  Clusters clusters(2);
  clusters.enter(0);
  clusters.enter(1);
  clusters.complete(0);
  clusters.act(1, clusters[1].complete(clusters.begun[1].attempt + 1));
  EXPECT_TRUE(clusters.held.empty());
}

TEST(Council, WhereASeatIsLostTheOthersTryAgainWithWhatTheyEntered) {
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

TEST(Council, WhereTheChairIsLostTheNextOneDecides) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.crash(0);
  EXPECT_EQ(clusters[1].chair(), 1);
  EXPECT_EQ(clusters[2].chair(), 1);
  EXPECT_THAT(clusters.seats(2), ElementsAre(1, 2));
}

TEST(Council, ANewChairWaitsUntilAllFollowIt) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  const std::uint64_t first = clusters.begun[1].attempt;
  clusters.lose(1, 0);
  EXPECT_EQ(clusters[1].chair(), 1);
  EXPECT_EQ(clusters.begun[1].attempt, first);
  clusters.lose(2, 0);
  EXPECT_GT(clusters.begun[1].attempt, first);
}

TEST(Council, ACommitThatReachedOneReachesAll) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.hold_back(1, AveragingKind::kCommit);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_THAT(clusters.held[2], ElementsAre(1));
  clusters.crash(0);
  EXPECT_THAT(clusters.held[1], ElementsAre(1));
}

TEST(Council, ACommitThatReachedNobodyIsNone) {
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

TEST(Council, ACommitWithoutTheResultIsIgnored) {
  Clusters clusters(2);
  clusters.enter(0);
  clusters.enter(1);
  Averaging commit;
  commit.kind = AveragingKind::kCommit;
  commit.round = 1;
  commit.attempt = clusters.begun[1].attempt;
  clusters.act(1, clusters[1].on_message(0, commit));
  EXPECT_TRUE(clusters.held[1].empty());
  EXPECT_EQ(clusters[1].ignored(), 1U);
}

TEST(Council, OnlyTheChairBeginsAttempts) {
  Clusters clusters(3);
  Averaging go;
  go.kind = AveragingKind::kGo;
  go.round = 1;
  go.attempt = 100;
  go.seats = {{1, 1.0}, {2, 1.0}};
  clusters.act(2, clusters[2].on_message(1, go));
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_EQ(clusters[2].ignored(), 1U);
}

TEST(Council, WhatNamesClustersThatDoNotExistIsIgnored) {
  Clusters clusters(2);
  Averaging stand;
  stand.chair = 9;
  EXPECT_THAT(clusters[0].on_message(1, stand), IsEmpty());
  stand.chair = 0;
  stand.seats = {{7, 1.0}};
  EXPECT_THAT(clusters[0].on_message(1, stand), IsEmpty());
  EXPECT_THAT(clusters[0].on_message(-1, {}), IsEmpty());
  EXPECT_THAT(clusters[0].on_message(0, {}), IsEmpty());
  EXPECT_EQ(clusters[0].ignored(), 4U);
}

TEST(Council, WhoComesLaterIsANewcomerWithoutWeight) {
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
  EXPECT_TRUE(clusters.begun[0].newcomers);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_FALSE(clusters[2].newcomer());
  EXPECT_THAT(clusters.held[2], ElementsAre(2));
}

TEST(Council, ANewcomerDoesNotTakeTheChair) {
  Clusters clusters(3, false);
  clusters.connect(1, 2);
  clusters.act(1, clusters[1].begin_without_the_unseen());
  for (const int i : {1, 2}) clusters.enter(i);
  for (const int i : {1, 2}) clusters.complete(i);
  clusters.connect(0, 1);
  clusters.connect(0, 2);
  EXPECT_EQ(clusters[0].chair(), 1);
  clusters.hold_round();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clusters[i].chair(), 1);
}

TEST(Council, TheOthersAreCalledWhenANewcomerHasEntered) {
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
  EXPECT_EQ((clusters.sent[{1, AveragingKind::kCall}]), 1);
  clusters.enter(0);
  clusters.enter(1);
  for (int i = 0; i < 3; ++i) clusters.complete(i);
  EXPECT_FALSE(clusters[1].called());
}

TEST(Council, NobodyWaitsForANewcomerToEnter) {
  Clusters clusters(3, false);
  clusters.connect(0, 1);
  clusters.act(0, clusters[0].begin_without_the_unseen());
  for (const int i : {0, 1}) clusters.enter(i);
  for (const int i : {0, 1}) clusters.complete(i);
  clusters.connect(0, 2);
  clusters.connect(1, 2);
  for (const int i : {0, 1}) clusters.enter(i);
  EXPECT_THAT(clusters.seats(0), ElementsAre(0, 1));
}

TEST(Council, WhoHasFinishedIsInEveryRoundAndCountsOnce) {
  Clusters clusters(2);
  clusters.finish(1, 7);
  clusters.enter(0, 3);
  EXPECT_THAT(clusters.weights(0), ElementsAre(3, 7));
  EXPECT_FALSE(clusters.begun[0].last);
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  clusters.enter(0, 3);
  EXPECT_THAT(clusters.weights(0), ElementsAre(3, 0));
}

TEST(Council, WhenAllHaveFinishedALastRoundIsHeldAndNoMore) {
  Clusters clusters(2);
  clusters.finish(0);
  clusters.finish(1);
  EXPECT_TRUE(clusters.begun[1].last);
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_TRUE(clusters.last[0]);
  EXPECT_EQ(clusters.begun[0].round, 1U);
  EXPECT_EQ(clusters[0].round(), 2U);
}

TEST(Council, WhoFinishesDuringARoundEntersTheNextWithThatWeight) {
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

TEST(Council, WhoResumesIsWaitedForAgain) {
  Clusters clusters(2);
  clusters.finish(1);
  clusters.act(1, clusters[1].resume());
  clusters.enter(0);
  EXPECT_TRUE(clusters.begun.empty());
  EXPECT_THAT(clusters[0].waiting_for(), ElementsAre(1));
  clusters.enter(1);
  EXPECT_FALSE(clusters.begun.empty());
}

TEST(Council, AClusterThatOthersDoNotReachIsOut) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(1, clusters[1].missing(2));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1));
  for (int i = 0; i < 2; ++i) clusters.complete(i);
  EXPECT_TRUE(clusters[2].newcomer());
  EXPECT_EQ(clusters[2].round(), 2U);
}

TEST(Council, WhoDoesNotReachTheChairIsOutItself) {
  Clusters clusters(3);
  for (int i = 0; i < 3; ++i) clusters.enter(i);
  clusters.act(2, clusters[2].missing(0));
  EXPECT_EQ(clusters.outs[2], 1);
  EXPECT_THAT(clusters.seats(1), ElementsAre(0, 1));
}

TEST(Council, OfTwoThatMissEachOtherOneStays) {
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

TEST(Council, WhoIsCutOffFromTheChairGoesOnAloneAndComesBackAsANewcomer) {
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

TEST(Council, NoTwoAttemptsHaveTheSameNumber) {
  Clusters clusters(2);
  for (int i = 0; i < 2; ++i) clusters.enter(i);
  clusters.lose(0, 1);
  clusters.lose(1, 0);
  EXPECT_NE(clusters.begun[0].attempt, clusters.begun[1].attempt);
}

TEST(Council, TheSmallerOfTwoGroupsYields) {
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
}  // namespace ravnest::collective
