#include "ravnest/stage/ending.h"

#include <gtest/gtest.h>

namespace ravnest::stage {
namespace {

using wire::Failed;

Failed own(std::uint32_t stage, const char* reason = "its disk is full") { return {stage, false, reason}; }
Failed lost(std::uint32_t stage, const char* reason = "it is gone") { return {stage, true, reason}; }

TEST(Ending, HasNotBegunWhereNothingHasFailed) {
  Ending ending(0, 3);
  ending.on_gone(1);
  ending.on_gone(2);
  EXPECT_FALSE(ending.begun());
  EXPECT_FALSE(ending.settled());
}

TEST(Ending, WhoFailsTellsTheReason) {
  Ending ending(1, 3);
  const auto told = ending.fail(own(1));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->stage, 1U);
  EXPECT_FALSE(told->lost);
  EXPECT_EQ(told->reason, "its disk is full");
  EXPECT_TRUE(ending.begun());
}

TEST(Ending, WhoIsToldPassesItOn) {
  Ending ending(1, 3);
  const auto told = ending.on_failed(2, own(2));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->stage, 2U);
  EXPECT_EQ(told->reason, "its disk is full");
}

TEST(Ending, ReasonsAreFitForATerminalWhoeverGivesThem) {
  const std::string flood = "failed:\n\x1b[2J\x1b]0;owned\x07" + std::string(7 << 20, 'x');
  Ending own_one(1, 3);
  Ending told_one(1, 3);
  for (const auto& told : {own_one.fail({1, false, flood}), told_one.on_failed(2, {1, false, flood})}) {
    ASSERT_TRUE(told.has_value());
    EXPECT_LE(told->reason.size(), 16U << 10);
    EXPECT_EQ(told->reason.find_first_of("\x1b\x07\n"), std::string::npos);
  }
  EXPECT_EQ(own_one.reason().reason, told_one.reason().reason) << "all have the same";
  EXPECT_EQ(own_one.reason().reason.find('\x1b'), std::string::npos);
}

TEST(Ending, TellsOnlyOnce) {
  Ending ending(1, 4);
  EXPECT_TRUE(ending.on_failed(2, own(2)).has_value());
  EXPECT_FALSE(ending.on_failed(3, own(3)).has_value());
  EXPECT_FALSE(ending.on_failed(0, own(0)).has_value());
  EXPECT_FALSE(ending.fail(own(1)).has_value());
}

TEST(Ending, AStagesOwnWordWinsOverALoss) {
  Ending ending(3, 4);
  ending.fail(lost(0));
  ending.on_failed(2, own(2));
  EXPECT_FALSE(ending.reason().lost);
  EXPECT_EQ(ending.reason().stage, 2U);
  ending.on_failed(1, lost(0));
  EXPECT_EQ(ending.reason().stage, 2U);
}

TEST(Ending, TheLowerStageWinsAmongTheLike) {
  Ending ending(3, 4);
  ending.fail(own(3));
  ending.on_failed(1, own(1));
  ending.on_failed(2, own(2));
  EXPECT_EQ(ending.reason().stage, 1U);
}

TEST(Ending, TheWordsDecideWhereTheStageIsTheSame) {
  Ending ending(0, 4);
  ending.on_failed(1, lost(3, "no answer"));
  ending.on_failed(2, lost(3, "it broke off"));
  EXPECT_EQ(ending.reason().reason, "it broke off");
}

TEST(Ending, TheReasonDoesNotDependOnTheOrderInWhichItWasHeard) {
  Ending one(0, 3);
  Ending other(0, 3);
  one.on_failed(1, lost(2));
  one.on_failed(2, own(2));
  other.on_failed(2, own(2));
  other.on_failed(1, lost(2));
  EXPECT_EQ(one.reason().lost, other.reason().lost);
  EXPECT_EQ(one.reason().reason, other.reason().reason);
}

// Others would never hear of it: a stage that counted it would end with a reason of its own.
TEST(Ending, WhatIsFoundAfterTellingDoesNotCount) {
  Ending ending(1, 3);
  ending.on_failed(2, own(2));
  EXPECT_FALSE(ending.fail(own(1)).has_value());
  EXPECT_EQ(ending.reason().stage, 2U);
}

TEST(Ending, IsSettledWhenAllOthersHaveTold) {
  Ending ending(1, 3);
  ending.fail(own(1));
  EXPECT_FALSE(ending.settled());
  ending.on_failed(0, own(1));
  EXPECT_FALSE(ending.settled());
  ending.on_failed(2, own(1));
  EXPECT_TRUE(ending.settled());
}

TEST(Ending, DoesNotWaitForStagesThatAreGone) {
  Ending ending(1, 3);
  ending.on_gone(0);
  ending.fail(lost(0));
  EXPECT_FALSE(ending.settled());
  ending.on_gone(2);
  EXPECT_TRUE(ending.settled());
}

TEST(Ending, DoesNotWaitForAStageThatOthersSayIsLost) {
  Ending ending(1, 3);
  ending.on_failed(0, lost(2));
  EXPECT_TRUE(ending.settled());
}

TEST(Ending, TheSameStageTellingTwiceIsOneStage) {
  Ending ending(1, 4);
  ending.on_failed(2, own(2));
  ending.on_failed(2, own(2));
  ending.on_failed(2, own(2));
  EXPECT_FALSE(ending.settled());
}

TEST(Ending, AStageThatDoesNotExistIsNotWaitedForAndDoesNotStandForOneThatDoes) {
  Ending ending(0, 3);
  ending.on_failed(1, lost(77));
  EXPECT_FALSE(ending.settled());
  ending.on_failed(2, lost(78));
  EXPECT_TRUE(ending.settled());
}

TEST(Ending, ARunOfOneStageIsSettledAtOnce) {
  Ending ending(0, 1);
  EXPECT_FALSE(ending.settled());
  ending.fail(own(0));
  EXPECT_TRUE(ending.settled());
}

TEST(EndingDeathTest, WhatNoStageCanSayOfItselfIsADefect) {
  EXPECT_DEATH(Ending(3, 3), "stage 3 of 3");
  EXPECT_DEATH(Ending(0, 2).fail(own(1)), "gives a reason of stage 1");
  EXPECT_DEATH(Ending(0, 2).fail(lost(0)), "gives the loss of stage 0");
  EXPECT_DEATH(Ending(0, 2).on_failed(0, own(0)), "hears itself");
  EXPECT_DEATH(Ending(0, 2).on_gone(0), "gone by its own account");
  EXPECT_DEATH((void)Ending(0, 2).reason(), "is asked why it ends");
}

}  // namespace
}  // namespace ravnest::stage
