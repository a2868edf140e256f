#include "ravnest/net/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace ravnest {
namespace {

TEST(Background, WhoStartsWorkGoesOnAndTheOwnerWaitsForItAtItsEnd) {
  std::atomic<int> done = 0;
  {
    std::promise<void> go;
    const std::shared_future<void> gone(go.get_future());
    Background background;
    for (int i = 0; i < 3; ++i) {
      background.start("name", [&done, gone] {
        gone.wait();
        ++done;
      });
    }
    EXPECT_EQ(done, 0);
    go.set_value();
  }
  EXPECT_EQ(done, 3);
}

TEST(Background, WhatWasStartedUnderANameIsWaitedForByIt) {
  std::atomic<int> done = 0;
  std::promise<void> go;
  Background background;
  background.start("other", [&] { go.get_future().wait(); });
  for (int i = 1; i <= 3; ++i) {
    background.start("own", [&done] { ++done; });
    background.finish("own");
    EXPECT_EQ(done, i);
  }
  background.finish("nobody's");
  go.set_value();
}

TEST(Background, OneThatIsInAHurrySaysSoUntilAllIsDone) {
  Background background;
  background.hurry();
  EXPECT_FALSE(background.hurried()) << "there is nothing to be done";
  std::promise<void> seen;
  background.start("patient", [&] {
    while (!background.hurried()) std::this_thread::yield();
    seen.set_value();
  });
  EXPECT_FALSE(background.done_by(SystemClock().now()));
  background.hurry();
  seen.get_future().wait();
  EXPECT_TRUE(background.done_by(SystemClock().now() + std::chrono::seconds(60)));
  EXPECT_FALSE(background.hurried()) << "what is started next has its time";
}

}  // namespace
}  // namespace ravnest
