// How agreements make checkpoints of rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/average/testing/agreement.h"

namespace ravnest::average {
namespace {

using testing::ElementsAre;

constexpr Capture kCan{100, false};
constexpr Capture kDue{100, true};
constexpr Capture kInTheMiddle{0, true};

class Checkpoints : public testing::Test {
 protected:
  void enter(int index, const Capture& capture) { clusters_.act(index, clusters_[index].enter(1, capture)); }
  void finish(int index, const Capture& capture) { clusters_.act(index, clusters_[index].finish(1, capture)); }
  void complete() {
    for (int i = 0; i < clusters_.count(); ++i) clusters_.complete(i);
  }
  // Both are told the same.
  const Attempt& attempt() {
    EXPECT_EQ(clusters_.begun[0], clusters_.begun[1]);
    return clusters_.begun[0];
  }

  Clusters clusters_{2};
};

TEST_F(Checkpoints, OneIsMadeOfTheRoundInWhichAnyOfThemIsDue) {
  enter(0, kCan);
  enter(1, {120, true});
  EXPECT_EQ(attempt().checkpoint, 120U);
  complete();
  enter(0, kCan);
  enter(1, kCan);
  EXPECT_EQ(attempt().checkpoint, 0U) << "nobody wants one";
  complete();
  enter(0, kDue);
  enter(1, kCan);
  EXPECT_EQ(attempt().checkpoint, 121U) << "numbers grow";
}

TEST_F(Checkpoints, WhereOneIsInTheMiddleOfTrainingTheNextRoundIsForIt) {
  enter(0, kInTheMiddle);
  enter(1, kCan);
  EXPECT_EQ(attempt().checkpoint, 0U);
  EXPECT_TRUE(attempt().checkpoint_next);
  complete();
  enter(0, kDue);
  enter(1, kDue);
  EXPECT_EQ(attempt().checkpoint, 100U);
  EXPECT_FALSE(attempt().checkpoint_next);
}

TEST_F(Checkpoints, OneThatNeverCanDoesNotMakeRoundsWithoutEnd) {
  for (const bool next : {true, false, true}) {
    enter(0, kDue);
    enter(1, {});
    EXPECT_EQ(attempt().checkpoint_next, next);
    complete();
  }
}

TEST_F(Checkpoints, WhoHasFinishedIsDueUntilOneIsMade) {
  finish(1, kDue);
  enter(0, kCan);
  EXPECT_EQ(attempt().checkpoint, 100U);
  complete();
  enter(0, kCan);
  EXPECT_EQ(attempt().checkpoint, 0U);
  complete();
  finish(0, {130, true});
  EXPECT_TRUE(attempt().last);
  EXPECT_EQ(attempt().checkpoint, 130U);
}

TEST_F(Checkpoints, WhoFinishesInTheMiddleOfARoundIsDueInTheNext) {
  enter(0, kInTheMiddle);
  enter(1, {});
  finish(0, kDue);
  complete();
  finish(1, kCan);
  EXPECT_EQ(attempt().checkpoint, 100U);
}

TEST_F(Checkpoints, WhenAParticipantIsLostOneIsMadeOfTheOthers) {
  enter(0, kDue);
  enter(1, {150, false});
  EXPECT_EQ(attempt().checkpoint, 150U);
  clusters_.crash(1);
  EXPECT_THAT(clusters_.participants(0), ElementsAre(0));
  EXPECT_EQ(clusters_.begun[0].checkpoint, 100U);
}

}  // namespace
}  // namespace ravnest::average
