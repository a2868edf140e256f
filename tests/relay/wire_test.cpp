#include "relay/wire.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ravnest::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kStart{seconds(1000)};

TEST(Wire, BytesLeaveAtTheRateWhoeverTheyBelongTo) {
  Wire wire({.mbps = 8}, 0, kStart);
  TimePoint last;
  for (int i = 0; i < 1000; ++i) last = wire.carry(1000, kStart);
  EXPECT_EQ(last, kStart + seconds(1));
}

TEST(Wire, DelayComesAfterTheRate) {
  Wire wire({.mbps = 8, .delay = milliseconds(30)}, 0, kStart);
  EXPECT_EQ(wire.carry(1000, kStart), kStart + milliseconds(31));
  EXPECT_EQ(wire.carry(1000, kStart), kStart + milliseconds(32));
}

TEST(Wire, TimeWithoutBytesIsLost) {
  Wire wire({.mbps = 8}, 0, kStart);
  const TimePoint later = kStart + seconds(5);
  wire.wake(later);
  EXPECT_EQ(wire.carry(1000, later), later + milliseconds(1));
}

TEST(Wire, LateTurnIsMadeUpForButNotWithoutEnd) {
  Wire wire({.mbps = 8}, 0, kStart);
  const TimePoint late = kStart + milliseconds(20);
  EXPECT_EQ(wire.carry(25'000, late), kStart + milliseconds(25));
  const TimePoint later = kStart + seconds(5);
  EXPECT_EQ(wire.carry(200'000, later), later + milliseconds(100));
}

TEST(Wire, JitterIsSpreadOverItsRangeAndTheSameForTheSameSeed) {
  const Direction way{.delay = milliseconds(10), .jitter = milliseconds(20)};
  Wire wire(way, 7, kStart);
  Wire same(way, 7, kStart);
  Duration least = seconds(1);
  Duration most{};
  for (int i = 0; i < 1000; ++i) {
    const TimePoint arrives = wire.carry(1, kStart);
    EXPECT_EQ(same.carry(1, kStart), arrives);
    least = std::min<Duration>(least, arrives - kStart);
    most = std::max<Duration>(most, arrives - kStart);
  }
  EXPECT_GE(least, milliseconds(10));
  EXPECT_LT(least, milliseconds(11));
  EXPECT_GT(most, milliseconds(29));
  EXPECT_LE(most, milliseconds(30));
}

TEST(Wire, OneConnectionHasRoomForWhatIsUnderWayAndLittleMore) {
  const Wire wire({.mbps = 100, .delay = milliseconds(40)}, 0, kStart);
  EXPECT_GE(wire.room_bytes(), 500'000U);
  EXPECT_LE(wire.room_bytes(), 1'000'000U);
  EXPECT_LE(Wire({.mbps = 100'000, .delay = seconds(60)}, 0, kStart).room_bytes(), 64U << 20);
}

TEST(Profile, DelayInANameIsTheRoundTripHalfOfItEachWay) {
  const auto profile = profile_named("10mbps-150ms");
  ASSERT_TRUE(profile.ok());
  for (const Direction& way : {profile->up, profile->down}) {
    EXPECT_EQ(way.mbps, 10);
    EXPECT_EQ(way.delay, milliseconds(75));
  }
  for (const auto name : kProfileNames) EXPECT_TRUE(profile_named(name).ok()) << name;
  EXPECT_EQ(profile_named("dial-up").status().code(), Code::kNotFound);
}

TEST(Profile, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_EQ(check(Profile{.up = {.mbps = -1}}).code(), Code::kInvalid);
  EXPECT_EQ(check(Profile{.down = {.delay = -milliseconds(1)}}).code(), Code::kInvalid);
  EXPECT_EQ(check(Profile{.down = {.jitter = std::chrono::hours(1)}}).code(), Code::kInvalid);
  EXPECT_EQ(check(Profile{.cut_min_bytes = 2, .cut_max_bytes = 1}).code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest::relay
