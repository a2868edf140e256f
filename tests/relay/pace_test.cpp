// How fast and how late a relay delivers. A busy machine may make it slower, never faster: lower bounds are strict,
// upper ones loose.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "ravnest/base/clock.h"
#include "relay/relay.h"
#include "relay/relay_testing.h"

namespace ravnest::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kTooFast = 1.05;
constexpr double kTooSlow = 0.2;

// Megabits per second from the moment of sending, so that a receiver that is late does not make it faster; all
// connections at once.
double measured_mbps(std::vector<Ends>& ends, bool up, std::size_t bytes_each) {
  const auto bytes = sample_bytes(bytes_each);
  std::vector<std::thread> threads;
  std::vector<TimePoint> last(ends.size());
  const TimePoint start = SystemClock().now();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Socket& from = up ? ends[i].client : ends[i].server;
    Socket& to = up ? ends[i].server : ends[i].client;
    threads.emplace_back([&] { EXPECT_TRUE(from.send(bytes, soon()).ok()); });
    threads.emplace_back([&, i] {
      const auto received = receive_all(to, bytes.size()).bytes;
      last[i] = SystemClock().now();
      EXPECT_TRUE(received == bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Duration took = *std::max_element(last.begin(), last.end()) - start;
  return static_cast<double>(bytes_each * ends.size()) * 8e3 / static_cast<double>(took.count());
}

TEST(Pace, RateOfEachDirectionHolds) {
  Network network({.up = {.mbps = 80}, .down = {.mbps = 20}});
  std::vector<Ends> ends;
  ends.push_back(network.connect());
  const double up = measured_mbps(ends, true, 8'000'000);
  EXPECT_LT(up, 80 * kTooFast);
  EXPECT_GT(up, 80 * kTooSlow);
  const double down = measured_mbps(ends, false, 2'000'000);
  EXPECT_LT(down, 20 * kTooFast);
  EXPECT_GT(down, 20 * kTooSlow);
}

TEST(Pace, ConnectionsShareTheRate) {
  Network network({.up = {.mbps = 40}});
  std::vector<Ends> ends;
  for (int i = 0; i < 4; ++i) ends.push_back(network.connect());
  const double together = measured_mbps(ends, true, 1'000'000);
  EXPECT_LT(together, 40 * kTooFast);
  EXPECT_GT(together, 40 * kTooSlow);
}

TEST(Pace, LongDelayDoesNotLowerTheRate) {
  Network network({.up = {.mbps = 80, .delay = milliseconds(300)}});
  std::vector<Ends> ends;
  ends.push_back(network.connect());
  const double mbps = measured_mbps(ends, true, 8'000'000);
  EXPECT_LT(mbps, 80 * kTooFast);
  EXPECT_GT(mbps, 80 * kTooSlow);
}

// The shortest of several, since one may meet a busy moment; of as many as it takes to stay below the limit.
Duration round_trip(Ends& ends, Duration limit = seconds(60)) {
  Duration shortest = seconds(60);
  const Wait patience = soon();
  for (int i = 0; i < 5 || (shortest >= limit && SystemClock().now() < patience.deadline); ++i) {
    const auto ping = sample_bytes(1);
    const TimePoint start = SystemClock().now();
    EXPECT_TRUE(ends.client.send(ping, soon()).ok());
    EXPECT_EQ(receive_all(ends.server, 1).bytes, ping);
    EXPECT_TRUE(ends.server.send(ping, soon()).ok());
    EXPECT_EQ(receive_all(ends.client, 1).bytes, ping);
    const Duration took = SystemClock().now() - start;
    shortest = std::min(shortest, took);
  }
  return shortest;
}

TEST(Pace, RoundTripTakesTheDelaysOfBothDirections) {
  Network network({.up = {.mbps = 100, .delay = milliseconds(30)}, .down = {.delay = milliseconds(20)}});
  Ends ends = network.connect();
  const Duration took = round_trip(ends, milliseconds(100));
  EXPECT_GE(took, milliseconds(50));
  EXPECT_LT(took, milliseconds(100)) << "neither delay counts twice";
}

TEST(Pace, NewProfileHoldsForConnectionsThatAreThere) {
  Network network({.up = {.mbps = 1}});
  Ends ends = network.connect();
  EXPECT_LT(round_trip(ends, milliseconds(100)), milliseconds(100));
  ASSERT_EQ(network.relay().set_profile({.up = {.delay = milliseconds(60)}, .down = {.delay = milliseconds(60)}}),
            Status());
  EXPECT_GE(round_trip(ends), milliseconds(120));
  ASSERT_EQ(network.relay().set_profile({}), Status());
  EXPECT_LT(round_trip(ends, milliseconds(100)), milliseconds(100));
}

TEST(Pace, NewRateHoldsForBytesThatWait) {
  Network network({.up = {.mbps = 0.5}});
  Ends ends = network.connect();
  const auto bytes = sample_bytes(8'000'000);
  std::thread sender([&] { EXPECT_TRUE(ends.client.send(bytes, soon()).ok()); });
  EXPECT_FALSE(receive_all(ends.server, 1).bytes.empty());
  EXPECT_EQ(network.relay().set_profile({.up = {.mbps = 100}}), Status());
  // At the old rate two minutes would not do.
  const std::size_t left = bytes.size() - network.relay().statistics().bytes_up;
  EXPECT_GE(receive_all(ends.server, left).bytes.size(), left);
  sender.join();
}

TEST(Pace, JitterKeepsTheOrderOfBytes) {
  Network network({.up = {.delay = milliseconds(2), .jitter = milliseconds(10)}});
  Ends ends = network.connect();
  const auto bytes = sample_bytes(20'000);
  // Small pieces in time, so that each gets a jitter of its own.
  std::thread sender([&] {
    for (std::size_t i = 0; i < bytes.size(); i += 10) {
      EXPECT_TRUE(ends.client.send(ByteSpan(bytes).subspan(i, 10), soon()).ok());
    }
  });
  const Received received = receive_all(ends.server, bytes.size());
  sender.join();
  EXPECT_TRUE(received.bytes == bytes);
}

TEST(Pace, JitterVariesTheDelayWithinItsRange) {
  Network network({.up = {.delay = milliseconds(5), .jitter = milliseconds(40)}});
  Ends ends = network.connect();
  Duration shortest = seconds(60);
  Duration longest{};
  for (int i = 0; i < 10; ++i) {
    const TimePoint start = SystemClock().now();
    ASSERT_TRUE(ends.client.send(sample_bytes(1), soon()).ok());
    ASSERT_EQ(receive_all(ends.server, 1).bytes.size(), 1U);
    shortest = std::min<Duration>(shortest, SystemClock().now() - start);
    longest = std::max<Duration>(longest, SystemClock().now() - start);
  }
  EXPECT_GE(shortest, milliseconds(5));
  EXPECT_GT(longest - shortest, milliseconds(10));
}

}  // namespace
}  // namespace ravnest::relay
