#include "ravnest/net/background_tasks.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace ravnest {
namespace {

constexpr int kPatienceMs = 60'000;

bool becomes_readable(int descriptor) {
  pollfd watched{descriptor, POLLIN, 0};
  return ::poll(&watched, 1, kPatienceMs) == 1;
}

TEST(BackgroundTasks, ResultsComeBackOnce) {
  BackgroundTasks<std::string> tasks;
  ASSERT_TRUE(tasks.start([](int) { return std::string("done"); }).ok());
  ASSERT_TRUE(becomes_readable(tasks.ready()));
  EXPECT_EQ(tasks.take(), std::vector<std::string>{"done"});
  EXPECT_TRUE(tasks.take().empty());
}

TEST(BackgroundTasks, AnBackgroundTaskIsToldThatItsOwnerIsGone) {
  const auto told = std::make_shared<std::promise<bool>>();
  auto outcome = told->get_future();
  {
    BackgroundTasks<int> tasks;
    ASSERT_TRUE(tasks
                    .start([told](int stop) {
                      told->set_value(becomes_readable(stop));
                      return 1;
                    })
                    .ok());
  }
  ASSERT_EQ(outcome.wait_for(std::chrono::milliseconds(2 * kPatienceMs)), std::future_status::ready);
  EXPECT_TRUE(outcome.get());
}

TEST(BackgroundTasks, ThreadsOfBackgroundTasksTakeNoSignals) {
  BackgroundTasks<bool> tasks;
  ASSERT_TRUE(tasks
                  .start([](int) {
                    sigset_t blocked;
                    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
                    return ::sigismember(&blocked, SIGTERM) == 1;
                  })
                  .ok());
  ASSERT_TRUE(becomes_readable(tasks.ready()));
  EXPECT_EQ(tasks.take(), std::vector<bool>{true});
}

}  // namespace
}  // namespace ravnest
