#include "ravnest/net/errands.h"

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

TEST(Errands, ResultsComeBackOnce) {
  Errands<std::string> errands;
  ASSERT_TRUE(errands.start([](int) { return std::string("done"); }).ok());
  ASSERT_TRUE(becomes_readable(errands.ready()));
  EXPECT_EQ(errands.take(), std::vector<std::string>{"done"});
  EXPECT_TRUE(errands.take().empty());
}

TEST(Errands, AnErrandIsToldThatItsOwnerIsGone) {
  const auto told = std::make_shared<std::promise<bool>>();
  auto outcome = told->get_future();
  {
    Errands<int> errands;
    ASSERT_TRUE(errands
                    .start([told](int stop) {
                      told->set_value(becomes_readable(stop));
                      return 1;
                    })
                    .ok());
  }
  ASSERT_EQ(outcome.wait_for(std::chrono::milliseconds(2 * kPatienceMs)), std::future_status::ready);
  EXPECT_TRUE(outcome.get());
}

TEST(Errands, ThreadsOfErrandsTakeNoSignals) {
  Errands<bool> errands;
  ASSERT_TRUE(errands
                  .start([](int) {
                    sigset_t blocked;
                    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
                    return ::sigismember(&blocked, SIGTERM) == 1;
                  })
                  .ok());
  ASSERT_TRUE(becomes_readable(errands.ready()));
  EXPECT_EQ(errands.take(), std::vector<bool>{true});
}

}  // namespace
}  // namespace ravnest
