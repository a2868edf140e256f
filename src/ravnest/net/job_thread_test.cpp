#include "ravnest/net/job_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ravnest {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TimePoint in(Duration time) { return SystemClock().now() + time; }

TEST(JobThread, JobsAreDoneInTheirOrderAlsoThoseThatAJobAdds) {
  std::vector<int> done;
  JobThread thread([](const std::string&) {});
  thread.add([&] {
    done.push_back(1);
    thread.add([&] { done.push_back(3); });
    done.push_back(2);
  });
  thread.wait_until_idle();
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(JobThread, IsNotIdleBeforeItHasLetGoOfWhatAJobHeld) {
  bool idle = true;
  JobThread thread([](const std::string&) {});
  thread.add(
      [held = std::shared_ptr<void>(nullptr, [&](void*) { idle = thread.is_idle_by(in(Duration::zero())); })] {});
  thread.wait_until_idle();
  EXPECT_FALSE(idle);
}

TEST(JobThread, WhatAJobThrowsIsToldAndTheNextOneIsDone) {
  std::string told;
  bool done = false;
  JobThread thread([&](const std::string& what) { told = what; });
  thread.add([] { throw std::runtime_error("the disk is gone"); });
  thread.add([&] { done = true; });
  thread.wait_until_idle();
  EXPECT_EQ(told, "the disk is gone");
  EXPECT_TRUE(done);
}

TEST(JobThread, IsNotIdleWhileAJobIsUnderWay) {
  std::promise<void> begun;
  std::promise<void> go_on;
  JobThread thread([](const std::string&) {});
  thread.add([&] {
    begun.set_value();
    go_on.get_future().wait_for(seconds(60));
  });
  ASSERT_EQ(begun.get_future().wait_for(seconds(60)), std::future_status::ready);
  EXPECT_FALSE(thread.is_idle_by(in(Duration::zero())));
  go_on.set_value();
  EXPECT_TRUE(thread.is_idle_by(in(seconds(60))));
}

// One job always waits here: an end that did them all would come after a minute.
TEST(JobThread, WhatWaitsAtTheEndIsDropped) {
  const TimePoint deadline = in(seconds(60));
  bool all_done = false;
  std::promise<void> begun;
  std::function<void()> job;
  {
    JobThread thread([](const std::string&) {});
    job = [&] {
      if (SystemClock().now() < deadline)
        thread.add(job);
      else
        all_done = true;
    };
    thread.add([&] {
      begun.set_value();
      job();
    });
    ASSERT_EQ(begun.get_future().wait_for(seconds(60)), std::future_status::ready);
  }
  EXPECT_FALSE(all_done);
}

TEST(JobThread, SignalsAreForTheThreadsOfTheApplication) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  JobThread thread([](const std::string&) {});
  thread.add([&] { ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked); });
  thread.wait_until_idle();
  EXPECT_EQ(::sigismember(&blocked, SIGINT), 1);
}

}  // namespace
}  // namespace ravnest
