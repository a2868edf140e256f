#include "ravnest/transport/liveness.h"

#include <gtest/gtest.h>

namespace ravnest::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class LivenessTest : public testing::Test {
 protected:
  // Time passes, and this process looks as it should.
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += std::min<Duration>(milliseconds(100), end - now_);
      liveness_.look(now_);
    }
  }
  // A peer that speaks at that pace.
  void speak(Duration every, Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      pass(every);
      liveness_.heard(now_);
    }
  }
  // How long the peer may be dead before `is` says so.
  Duration until(bool (Liveness::*is)(TimePoint) const) {
    const TimePoint start = now_;
    while (!(liveness_.*is)(now_) && now_ - start < minutes(5)) pass(milliseconds(100));
    return now_ - start;
  }

  TimePoint now_{std::chrono::hours(1)};
  Liveness liveness_{now_};
};

TEST_F(LivenessTest, APeerThatBeatsIsNeverSlow) {
  for (int i = 0; i < 200; ++i) {
    pass(kBeat);
    EXPECT_FALSE(liveness_.is_slow(now_));
    liveness_.heard(now_);
  }
}

TEST_F(LivenessTest, AReliablePeerThatDiesIsNoticedAfterThreeSeconds) {
  speak(kBeat, minutes(1));
  EXPECT_LE(until(&Liveness::is_slow), Liveness::kLeastPatience / 2 + milliseconds(200));
  EXPECT_LE(until(&Liveness::is_silent), Liveness::kLeastPatience + milliseconds(200));
}

TEST_F(LivenessTest, LongerPausesGiveMorePatience) {
  speak(kBeat, seconds(10));
  const Duration before = liveness_.patience();
  speak(seconds(2), seconds(10));
  EXPECT_EQ(liveness_.patience(), seconds(8));
  EXPECT_GT(liveness_.patience(), before);
  speak(seconds(4), seconds(10));
  EXPECT_EQ(liveness_.patience(), seconds(16));
}

TEST_F(LivenessTest, PatienceIsForgottenAgain) {
  speak(seconds(4), seconds(10));
  speak(kBeat, minutes(5));
  EXPECT_EQ(liveness_.patience(), Liveness::kLeastPatience);
}

TEST_F(LivenessTest, NoPauseGivesMoreThanTheMostPatience) {
  speak(seconds(30), minutes(2));
  EXPECT_EQ(liveness_.patience(), Liveness::kMostPatience);
  EXPECT_LE(until(&Liveness::is_silent), Liveness::kMostPatience + milliseconds(200));
}

TEST_F(LivenessTest, TimeInWhichThisProcessStoodStillIsNotCounted) {
  speak(kBeat, seconds(10));
  now_ += minutes(10);
  EXPECT_EQ(liveness_.look(now_), minutes(10));
  EXPECT_FALSE(liveness_.is_slow(now_));
  pass(kBeat);
  liveness_.heard(now_);
  EXPECT_EQ(liveness_.patience(), Liveness::kLeastPatience) << "the pause was not the peer's";
  // Also where the first thing after it is a word of the peer's.
  now_ += minutes(10);
  liveness_.heard(now_);
  EXPECT_EQ(liveness_.patience(), Liveness::kLeastPatience);
}

TEST_F(LivenessTest, LookingAsOneShouldIsNoPause) { EXPECT_EQ(liveness_.look(now_ += 2 * kBeat), Duration::zero()); }

TEST_F(LivenessTest, TimeWithoutAConnectionSaysNothingAboutPauses) {
  speak(kBeat, seconds(10));
  pass(seconds(4));
  liveness_.restart(now_);
  EXPECT_FALSE(liveness_.is_slow(now_));
  pass(milliseconds(300));
  liveness_.heard(now_);
  EXPECT_EQ(liveness_.patience(), Liveness::kLeastPatience);
}

}  // namespace
}  // namespace ravnest::transport
