#include "ravnest/net/testing/free_port.h"

#include <gtest/gtest.h>

#include "ravnest/net/socket.h"

namespace ravnest {
namespace {

TEST(FreePort, IsRefusedUntilItsTestListensAndMayBeListenedOnAgain) {
  const std::uint16_t port = free_port();
  EXPECT_NE(free_port(), port);
  for (const char* host : {"127.0.0.1", "", "127.0.0.1"}) {
    EXPECT_EQ(Socket::connect({"127.0.0.1", port}, Wait::of(std::chrono::seconds(10))).status().code(),
              Code::kUnavailable);
    const auto listener = Listener::open(host, port);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(Socket::connect({"127.0.0.1", port}, Wait::of(std::chrono::seconds(10))).ok());
    EXPECT_EQ(Listener::open("127.0.0.1", port).status().code(), Code::kUnavailable) << "it has one listener at a time";
  }
}

}  // namespace
}  // namespace ravnest
