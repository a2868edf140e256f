#include "ravnest/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ravnest {
namespace {

using namespace std::chrono_literals;

TEST(SystemClock, GoesOnAndNeverBack) {
  const SystemClock clock;
  const TimePoint start = clock.now();
  TimePoint last = start;
  while (last == start) {
    const TimePoint next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(TimePoint(5s));
  EXPECT_EQ(clock.now(), TimePoint(5s));
  EXPECT_EQ(clock.now(), TimePoint(5s));
  clock.advance(250ms);
  EXPECT_EQ(clock.now(), TimePoint(5250ms));
}

TEST(ManualClock, DoesNotGoBack) {
  ManualClock clock(TimePoint(1s));
  clock.advance(-1ms);
  EXPECT_EQ(clock.now(), TimePoint(1s));
}

TEST(ManualClock, StepsFromSeveralThreadsAddUp) {
  ManualClock clock;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&clock] {
      for (int step = 0; step < 1000; ++step) clock.advance(1ns);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(clock.now(), TimePoint(4000ns));
}

}  // namespace
}  // namespace ravnest
