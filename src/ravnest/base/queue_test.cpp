#include "ravnest/base/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ravnest {
namespace {

using namespace std::chrono_literals;

TimePoint soon() { return SystemClock().now() + 20ms; }
TimePoint far() { return SystemClock().now() + 30s; }

TEST(BoundedQueue, ItemsComeOutInTheOrderTheyWentIn) {
  BoundedQueue<int> queue(3);
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(queue.push(int(i), far()).ok());
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(queue.pop(far()).value(), i);
}

TEST(BoundedQueue, TryPushRefusesWhenFullAndLeavesTheItemWithTheCaller) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.try_push(std::make_unique<int>(1)).ok());
  auto second = std::make_unique<int>(2);
  EXPECT_EQ(queue.try_push(std::move(second)).code(), Code::kUnavailable);
  // NOLINTNEXTLINE(bugprone-use-after-move): that it was not moved is the point
  EXPECT_EQ(second == nullptr ? 0 : *second, 2);
  EXPECT_EQ(queue.size(), 1U);
}

TEST(BoundedQueue, TryPopOnAnEmptyQueueIsUnavailable) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.try_pop().status().code(), Code::kUnavailable);
}

TEST(BoundedQueue, WaitsEndAtTheirDeadline) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_EQ(queue.pop(soon()).status().code(), Code::kDeadline);
  ASSERT_TRUE(queue.try_push(std::make_unique<int>(1)).ok());
  auto second = std::make_unique<int>(2);
  EXPECT_EQ(queue.push(std::move(second), soon()).code(), Code::kDeadline);
  EXPECT_NE(second, nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(BoundedQueue, DeadlineInThePastStillTakesWhatIsThere) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.push(1, TimePoint::min()).ok());
  EXPECT_EQ(queue.pop(TimePoint::min()).value(), 1);
}

TEST(BoundedQueue, ClosedQueueDrainsThenEnds) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.try_push(1).ok());
  ASSERT_TRUE(queue.try_push(2).ok());
  queue.close();
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(queue.push(3, far()).code(), Code::kCancelled);
  EXPECT_EQ(queue.try_push(3).code(), Code::kCancelled);
  EXPECT_EQ(queue.pop(far()).value(), 1);
  EXPECT_EQ(queue.try_pop().value(), 2);
  EXPECT_EQ(queue.pop(far()).status().code(), Code::kCancelled);
  EXPECT_EQ(queue.try_pop().status().code(), Code::kCancelled);
}

// Whether a thread already sleeps cannot be seen from outside, so this tries often: a close that does not wake shows as
// a wait that lasts until its deadline.
TEST(BoundedQueue, CloseWakesEveryWaitingThreadBeforeItsDeadline) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> empty(1);
    BoundedQueue<int> full(1);
    ASSERT_TRUE(full.try_push(0).ok());
    const TimePoint deadline = far();
    std::atomic<int> started = 0;
    std::atomic<int> woken = 0;
    const auto wait = [&](auto operation) {
      ++started;
      woken += operation() == Code::kCancelled && SystemClock().now() < deadline;
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { wait([&] { return empty.pop(deadline).status().code(); }); });
      threads.emplace_back([&] { wait([&] { return full.push(1, deadline).code(); }); });
    }
    while (started < 6) std::this_thread::yield();
    empty.close();
    full.close();
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(woken, 6);
  }
}

TEST(BoundedQueue, CapacityOfZeroIsTakenAsOne) {
  BoundedQueue<int> queue(0);
  EXPECT_EQ(queue.capacity(), 1U);
  EXPECT_TRUE(queue.try_push(1).ok());
}

TEST(BoundedQueue, ManyProducersAndConsumersLoseAndRepeatNothing) {
  constexpr int kProducers = 4;
  constexpr int kEach = 2000;
  BoundedQueue<int> queue(3);
  std::vector<std::vector<int>> taken(3);
  std::vector<std::thread> consumers;
  for (auto& mine : taken) {
    consumers.emplace_back([&queue, &mine] {
      for (auto item = queue.pop(far()); item.ok(); item = queue.pop(far())) mine.push_back(*item);
    });
  }
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(p * kEach + i, far()).ok());
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();

  std::vector<int> seen(std::size_t{kProducers} * kEach, 0);
  for (const auto& mine : taken) {
    for (const int item : mine) ++seen[static_cast<std::size_t>(item)];
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

}  // namespace
}  // namespace ravnest
