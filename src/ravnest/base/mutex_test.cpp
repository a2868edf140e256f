#include "ravnest/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ravnest {
namespace {

// Tickets that one thread makes and another takes.
class Tickets {
 public:
  void make() {
    const MutexLock lock(mutex_);
    ++tickets_;
    made_.notify_one();
  }
  bool take(TimePoint deadline) {
    const MutexLock lock(mutex_);
    const bool there = made_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return tickets_ > 0; });
    if (there) --tickets_;
    return there;
  }
  bool is_locked() {
    if (!mutex_.try_lock()) return true;
    const MutexLock lock(mutex_, std::adopt_lock);
    return false;
  }
  void fail_while_waiting() {
    const MutexLock lock(mutex_);
    made_.wait(mutex_, []() -> bool { throw std::runtime_error("looked"); });
  }
  // What the question says while this thread holds the lock, and while it has let go of it.
  template <class Question>
  std::pair<bool, bool> asked_within(Question question) {
    MutexLock lock(mutex_);
    const bool held = question();
    lock.unlock();
    const bool let_go = question();
    lock.lock();
    return {held, let_go};
  }

 private:
  Mutex mutex_;
  ConditionVariable made_;
  int tickets_ RAVNEST_GUARDED_BY(mutex_) = 0;
};

TimePoint soon() { return SystemClock().now() + std::chrono::seconds(60); }

TEST(Mutex, AWaitLetsOthersInAndEndsWithWhatTheyBring) {
  Tickets tickets;
  std::thread maker([&] {
    for (int i = 0; i < 100; ++i) tickets.make();
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(tickets.take(soon()));
  maker.join();
  EXPECT_FALSE(tickets.take(SystemClock().now())) << "all were taken";
  EXPECT_FALSE(tickets.is_locked());
}

TEST(Mutex, ALockCanBeLetGoForAWhile) {
  Tickets tickets;
  const auto asked = tickets.asked_within([&] {
    bool locked = false;
    std::thread([&] { locked = tickets.is_locked(); }).join();
    return locked;
  });
  EXPECT_EQ(asked, std::pair(true, false));
  EXPECT_FALSE(tickets.is_locked());
}

TEST(Mutex, AnExceptionInAWaitLeavesTheLockToItsOwner) {
  Tickets tickets;
  EXPECT_THROW(tickets.fail_while_waiting(), std::runtime_error);
  EXPECT_FALSE(tickets.is_locked()) << "let go once, by its owner";
}

}  // namespace
}  // namespace ravnest
