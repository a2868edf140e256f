// Links of a known rate and delay are measured as such.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "ravnest/machine/link_client.h"
#include "ravnest/machine/testing/link.h"
#include "relay/relay.h"

namespace ravnest {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

relay::Relay relayed(const RunningServer& server, const relay::Direction& up, const relay::Direction& down) {
  auto opened = relay::Relay::open({"127.0.0.1", 0}, server.address(), {.up = up, .down = down});
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

// What was measured at a calm moment: a busy one may make a link look slower, and is measured again.
Result<LinkMeasurement> measured_calmly(const Address& to, const LinkOptions& options,
                                        const std::function<bool(const LinkMeasurement&)>& fits) {
  for (int attempt = 1;; ++attempt) {
    auto measured = measure_link(to, options);
    if (!measured.ok() || fits(*measured) || attempt == 5) return measured;
  }
}

bool is_near(double measured, double expected) { return std::abs(measured - expected) <= expected / 5; }

TEST(LinkOverRelay, RateOfEachDirectionIsRecognisedWithinTwentyPercentAndTheLowerOneCounts) {
  RunningServer server({"127.0.0.1"});
  const auto relay = relayed(server, {.mbps = 16}, {.mbps = 8});
  const auto measured = measured_calmly(relay.address(), {5, milliseconds(1500), seconds(40)}, [](const auto& link) {
    return is_near(link.up_mbps, 16) && is_near(link.down_mbps, 8);
  });
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->up_mbps, 16, 3.2);
  EXPECT_NEAR(measured->down_mbps, 8, 1.6);
  EXPECT_EQ(measured->bandwidth_mbps(), measured->down_mbps);
}

TEST(LinkOverRelay, SlowDirectionUpIsRecognisedToo) {
  RunningServer server({"127.0.0.1"});
  const auto relay = relayed(server, {.mbps = 4}, {.mbps = 20});
  const auto measured = measured_calmly(relay.address(), {5, milliseconds(1500), seconds(40)}, [](const auto& link) {
    return is_near(link.up_mbps, 4) && is_near(link.down_mbps, 20);
  });
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->up_mbps, 4, 0.8);
  EXPECT_NEAR(measured->down_mbps, 20, 4);
  EXPECT_EQ(measured->bandwidth_mbps(), measured->up_mbps);
}

TEST(LinkOverRelay, LatencyIsHalfOfTheRoundTripThatTheDelaysMake) {
  RunningServer server({"127.0.0.1"});
  const auto relay = relayed(server, {.delay = milliseconds(30)}, {.delay = milliseconds(10)});
  const auto measured = measured_calmly(relay.address(), {9, milliseconds(500), seconds(40)},
                                        [](const auto& link) { return link.latency_ms < 40; });
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GE(measured->latency_ms, 20);
  EXPECT_LT(measured->latency_ms, 40);
}

}  // namespace
}  // namespace ravnest
