#include "ravnest/strategy/launch/rank_ending.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Failed;

class RankEndingTest : public testing::Test {
 protected:
  // Of rank 1 among three.
  RankEnding one_{1, {"rank 0 (10.0.0.1)", "rank 1 (10.0.0.2)", "rank 2 (10.0.0.3)"}};
  const TimePoint start_ = TimePoint(seconds(100));

  // Feeds the time at which it wants to be woken, until it has its outcome or nothing more is to come.
  Status outcome() {
    while (!one_.outcome() && one_.wakes_at() < TimePoint::max()) (void)one_.on_time(one_.wakes_at());
    return one_.outcome().value_or(Status());
  }
};

TEST_F(RankEndingTest, NothingHappensByItself) {
  EXPECT_EQ(one_.wakes_at(), TimePoint::max());
  (void)one_.on_left(2, start_);
  EXPECT_EQ(outcome(), Status());
}

TEST_F(RankEndingTest, OneThatIsLostIsNamedWithTheStep) {
  one_.at_step(812);
  const auto told = one_.on_lost(2, start_);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->reason, "rank 2 (10.0.0.3) was lost at step 812");
  EXPECT_EQ(outcome(), unavailable(told->reason));
  EXPECT_TRUE(outcome().is_of_another());
}

TEST_F(RankEndingTest, WaitsForTheOthersAndThenAMomentForWhatTheyPassOn) {
  (void)one_.fail("the data differ", start_);
  EXPECT_EQ(one_.wakes_at(), start_ + seconds(2));
  (void)one_.on_failed(0, {1, false, "the data differ"}, start_ + milliseconds(5));
  EXPECT_EQ(one_.wakes_at(), start_ + seconds(2));
  (void)one_.on_failed(2, {1, false, "the data differ"}, start_ + milliseconds(10));
  EXPECT_FALSE(one_.outcome());
  EXPECT_EQ(one_.wakes_at(), start_ + milliseconds(210));
  EXPECT_FALSE(outcome().is_of_another());
}

TEST_F(RankEndingTest, WhatIsBetterThanTheReasonToldBeforeIsPassedOn) {
  (void)one_.fail("its disk is full", start_);
  const auto again = one_.on_failed(0, {0, false, "was interrupted"}, start_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stage, 0U);
  EXPECT_FALSE(one_.on_failed(2, {2, false, "has had enough"}, start_)) << "it is not better";
  EXPECT_EQ(outcome(), unavailable("was interrupted"));
}

TEST_F(RankEndingTest, NothingIsBetterOnceItHasEnded) {
  (void)one_.on_failed(2, {2, false, "has had enough"}, start_);
  EXPECT_EQ(outcome(), unavailable("has had enough"));
  EXPECT_FALSE(one_.on_failed(0, {0, false, "was interrupted"}, start_ + seconds(3)));
  EXPECT_EQ(outcome(), unavailable("has had enough"));
}

TEST_F(RankEndingTest, WhatBreaksIsJudgedWhenNobodyHasToldWhy) {
  EXPECT_FALSE(one_.broke(unavailable("the ring broke"), start_));
  EXPECT_EQ(one_.wakes_at(), start_ + seconds(2));
  const auto told = one_.on_time(start_ + seconds(2));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->reason, "rank 1 (10.0.0.2) failed: the ring broke");
}

TEST_F(RankEndingTest, ABrokenConnectionIsWaitedForLonger) {
  one_.on_connection(2, true);
  (void)one_.broke(unavailable("the ring broke"), start_);
  EXPECT_EQ(one_.wakes_at(), start_ + seconds(8));
  one_.on_connection(2, false);
  EXPECT_EQ(one_.wakes_at(), start_ + seconds(2));
}

TEST_F(RankEndingTest, WhoHasLeftExplainsAtOnceWhatBreaks) {
  one_.at_step(40);
  (void)one_.on_left(2, start_);
  const auto told = one_.broke(unavailable("the ring broke"), start_);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->reason, "rank 2 (10.0.0.3) left at step 40, while others still needed it");
}

TEST_F(RankEndingTest, ARankBeyondTheWorldIsNotHeard) {
  EXPECT_FALSE(one_.on_failed(2, {77, false, "was interrupted"}, start_));
  EXPECT_FALSE(one_.has_begun());
}

TEST(RankEndingDeathTest, WhatOnlyADefectCanFeedItEndsTheProcess) {
  const std::vector<std::string> shown = {"rank 0", "rank 1"};
  EXPECT_DEATH(RankEnding(2, shown), "2 of 2");
  EXPECT_DEATH((void)RankEnding(1, shown).on_lost(1, TimePoint()), "rank 1 of 2 hears about rank 1");
  EXPECT_DEATH((void)RankEnding(1, shown).on_left(2, TimePoint()), "rank 1 of 2 hears about rank 2");
  EXPECT_DEATH((void)RankEnding(1, shown).broke(Status(), TimePoint()), "something broke, and not what");
}

}  // namespace
}  // namespace ravnest::strategy
