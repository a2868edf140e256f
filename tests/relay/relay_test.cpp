// What a relay carries, and how its connections end. Rates and delays: pace_test.cpp.
#include "relay/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/net/testing/free_port.h"
#include "relay/relay_testing.h"

namespace ravnest::relay {
namespace {

using std::chrono::milliseconds;

void reset(Socket socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(socket.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
}

bool nothing_comes(Socket& socket) {
  return receive_all(socket, 1, Wait::of(milliseconds(200))).status.code() == Code::kDeadline;
}

bool exchanges(Ends& ends) {
  const auto question = sample_bytes(100);
  return ends.client.send(question, soon()).ok() && receive_all(ends.server, 100).bytes == question &&
         ends.server.send(question, soon()).ok() && receive_all(ends.client, 100).bytes == question;
}

TEST(Relay, BytesOfBothDirectionsComeThroughUnchangedAndAreCounted) {
  Network network;
  Ends ends = network.connect();
  const auto bytes = sample_bytes(20 << 20);
  const auto send = [&](Socket& socket) {
    EXPECT_TRUE(socket.send(bytes, soon()).ok());
    ::shutdown(socket.descriptor(), SHUT_WR);
  };
  std::thread up([&] { send(ends.client); });
  std::thread down([&] { send(ends.server); });
  Received at_server;
  std::thread receiver([&] { at_server = receive_all(ends.server); });
  const Received at_client = receive_all(ends.client);
  for (std::thread* thread : {&up, &down, &receiver}) thread->join();
  EXPECT_TRUE(at_client.in_order && at_server.in_order) << at_client.status << at_server.status;
  EXPECT_TRUE(at_client.bytes == bytes);
  EXPECT_TRUE(at_server.bytes == bytes);
  const Statistics counted = network.relay().statistics();
  EXPECT_EQ(counted.connections, 1U);
  EXPECT_EQ(counted.cuts, 0U);
  EXPECT_EQ(counted.bytes_up, bytes.size());
  EXPECT_EQ(counted.bytes_down, bytes.size());
}

TEST(Relay, EndOfOneDirectionLeavesTheOtherOpen) {
  Network network({.up = {.delay = milliseconds(5)}});
  auto [client, server] = network.connect();
  const auto bytes = sample_bytes(100'000);
  ASSERT_TRUE(client.send(bytes, soon()).ok());
  ::shutdown(client.descriptor(), SHUT_WR);
  const Received question = receive_all(server);
  EXPECT_TRUE(question.in_order) << question.status;
  EXPECT_TRUE(question.bytes == bytes);
  ASSERT_TRUE(server.send(bytes, soon()).ok());
  ::shutdown(server.descriptor(), SHUT_WR);
  const Received answer = receive_all(client);
  EXPECT_TRUE(answer.in_order) << answer.status;
  EXPECT_TRUE(answer.bytes == bytes);
}

TEST(Relay, ResetIsPassedOnBehindTheBytesBeforeIt) {
  for (const Duration delay : {Duration(), Duration(milliseconds(20))}) {
    Network network({.up = {.delay = delay}, .down = {.delay = delay}});
    auto [client, server] = network.connect();
    const auto bytes = sample_bytes(1000);
    ASSERT_TRUE(client.send(bytes, soon()).ok());
    reset(std::move(client));
    const Received received = receive_all(server);
    EXPECT_TRUE(received.bytes == bytes);
    EXPECT_TRUE(is_reset(received)) << received.status;
  }
}

TEST(Relay, ServerThatStillSendsToAClientThatHasClosedIsReset) {
  Network network;
  std::optional<Ends> ends = network.connect();
  Socket server = std::move(ends->server);
  ends.reset();
  EXPECT_TRUE(receive_all(server).in_order);
  const auto bytes = sample_bytes(1 << 20);
  const Wait wait = soon();
  Status sent;
  while (sent.ok()) sent = server.send(bytes, wait);
  EXPECT_EQ(sent.code(), Code::kUnavailable) << sent;
}

TEST(Relay, ClientIsResetWhereTheServerIsNotThere) {
  auto relay = Relay::open({"127.0.0.1", 0}, {"127.0.0.1", free_port()});
  ASSERT_TRUE(relay.ok()) << relay.status();
  // The reset may even come before connecting has returned.
  auto client = Socket::connect(relay->address(), soon());
  EXPECT_TRUE(client.ok() ? is_reset(receive_all(*client)) : client.status().code() == Code::kUnavailable);
}

TEST(Relay, ConnectionIsCutAfterExactlySoManyBytes) {
  for (const double mbps : {0.0, 50.0}) {
    Network network({.up = {.mbps = mbps}, .cut_min_bytes = 123'457, .cut_max_bytes = 123'457});
    Ends ends = network.connect();
    const auto bytes = sample_bytes(32 << 20);
    Status sent;
    std::thread sender([&] { sent = ends.client.send(bytes, soon()); });
    const Received received = receive_all(ends.server);
    sender.join();
    ASSERT_EQ(received.bytes.size(), 123'457U);
    EXPECT_TRUE(std::equal(received.bytes.begin(), received.bytes.end(), bytes.begin()));
    EXPECT_TRUE(is_reset(received)) << received.status;
    EXPECT_EQ(sent.code(), Code::kUnavailable);
    EXPECT_EQ(network.relay().statistics().cuts, 1U);
  }
}

TEST(Relay, BytesBeforeTheCutReachAReceiverThatIsLate) {
  Network network({.cut_min_bytes = 500'000, .cut_max_bytes = 500'000});
  auto [client, server] = network.connect();
  const auto bytes = sample_bytes(500'000);
  ASSERT_TRUE(client.send(bytes, soon()).ok());
  const TimePoint deadline = soon().deadline;
  while (network.relay().statistics().bytes_up < bytes.size() && SystemClock().now() < deadline) {
  }
  const Received received = receive_all(server);
  EXPECT_EQ(received.bytes.size(), bytes.size());
  EXPECT_TRUE(is_reset(received)) << received.status;
}

TEST(Relay, BytesOfBothDirectionsBringTheCutNearer) {
  Network network({.cut_min_bytes = 100, .cut_max_bytes = 100});
  auto [client, server] = network.connect();
  const auto bytes = sample_bytes(80);
  ASSERT_TRUE(client.send(bytes, soon()).ok());
  EXPECT_EQ(receive_all(server, 80).bytes.size(), 80U);
  ASSERT_TRUE(server.send(bytes, soon()).ok());
  const Received answer = receive_all(client);
  EXPECT_EQ(answer.bytes.size(), 20U);
  EXPECT_TRUE(is_reset(answer)) << answer.status;
  EXPECT_TRUE(is_reset(receive_all(server)));
}

TEST(Relay, CutsAreDrawnFromTheirRangeAndRepeatWithTheSeed) {
  const auto cuts = [](std::uint64_t seed) {
    Network network({.cut_min_bytes = 1000, .cut_max_bytes = 5000, .seed = seed});
    const auto bytes = sample_bytes(5000);
    std::vector<std::size_t> found;
    for (int i = 0; i < 8; ++i) {
      auto [client, server] = network.connect();
      EXPECT_TRUE(client.send(bytes, soon()).ok());
      found.push_back(receive_all(server).bytes.size());
    }
    return found;
  };
  const auto first = cuts(1);
  EXPECT_THAT(first, ::testing::Each(::testing::AllOf(::testing::Ge(1000U), ::testing::Le(5000U))));
  EXPECT_GT(std::set(first.begin(), first.end()).size(), 1U);
  EXPECT_EQ(cuts(1), first);
  EXPECT_NE(cuts(2), first);
}

TEST(Relay, CutResetsAllConnectionsAndTheNextOneIsCarried) {
  Network network({.up = {.delay = milliseconds(1)}});
  std::vector<Ends> ends;
  for (int i = 0; i < 3; ++i) ends.push_back(network.connect());
  network.relay().cut();
  EXPECT_EQ(network.relay().statistics().cuts, 3U);
  for (auto& [client, server] : ends) {
    EXPECT_TRUE(is_reset(receive_all(client)));
    EXPECT_TRUE(is_reset(receive_all(server)));
  }
  Ends next = network.connect();
  EXPECT_TRUE(exchanges(next));
}

TEST(Relay, CutReachesAClientWhoseConnectHasOnlyJustReturned) {
  Network network;
  for (int i = 1; i <= 20; ++i) {
    Socket client = network.try_to_connect().value();
    network.relay().cut();
    EXPECT_EQ(network.relay().statistics().cuts, static_cast<std::uint64_t>(i));
    EXPECT_TRUE(is_reset(receive_all(client)));
  }
}

TEST(Relay, RefusingTurnsNewConnectionsAwayUntilItEndsAndLeavesOldOnesAlone) {
  Network network;
  Ends before = network.connect();
  const Address address = network.relay().address();
  ASSERT_EQ(network.relay().set_refusing(true), Status());
  ASSERT_EQ(network.relay().set_refusing(true), Status());
  const auto refused = network.try_to_connect();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("refused"));
  EXPECT_TRUE(exchanges(before));
  ASSERT_EQ(network.relay().set_refusing(false), Status());
  EXPECT_EQ(network.relay().address(), address);
  Ends after = network.connect();
  EXPECT_TRUE(exchanges(after));
}

TEST(Relay, WhatWaitedWhileSilentComesWholeAfterwards) {
  Network network({.up = {.delay = milliseconds(1)}});
  Ends old = network.connect();
  ASSERT_TRUE(exchanges(old));
  network.relay().set_silent(true);
  const auto bytes = sample_bytes(50'000);
  ASSERT_TRUE(old.client.send(bytes, soon()).ok());
  ::shutdown(old.client.descriptor(), SHUT_WR);
  ASSERT_TRUE(old.server.send(bytes, soon()).ok());
  Socket young = network.try_to_connect().value();
  ASSERT_TRUE(young.send(bytes, soon()).ok());
  EXPECT_TRUE(nothing_comes(old.server));
  EXPECT_TRUE(nothing_comes(old.client));
  EXPECT_TRUE(nothing_comes(young));

  network.relay().set_silent(false);
  const Received up = receive_all(old.server);
  EXPECT_TRUE(up.in_order) << up.status;
  EXPECT_TRUE(up.bytes == bytes);
  EXPECT_TRUE(receive_all(old.client, bytes.size()).bytes == bytes);
  Socket reached = network.accept();
  EXPECT_TRUE(receive_all(reached, bytes.size()).bytes == bytes);
}

TEST(Relay, ResetDuringSilenceIsLearntOfOnlyAfterwards) {
  Network network;
  auto [client, server] = network.connect();
  network.relay().set_silent(true);
  reset(std::move(client));
  EXPECT_TRUE(nothing_comes(server));
  network.relay().set_silent(false);
  EXPECT_TRUE(is_reset(receive_all(server)));
}

TEST(Relay, SenderWaitsForAReceiverThatDoesNotReadAndNothingIsLost) {
  for (const Direction way : {Direction{}, Direction{.mbps = 1000}}) {
    Network network({.up = way});
    auto [client, server] = network.connect();
    const auto bytes = sample_bytes(64 << 20);
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto count = client.send_some(ByteSpan(bytes).subspan(sent), Wait::of(milliseconds(1000)));
      if (!count.ok()) break;
      sent += *count;
    }
    // What the relay may hold, and what the kernels at both ends take on top.
    EXPECT_LT(sent, 24U << 20) << way.mbps;
    ::shutdown(client.descriptor(), SHUT_WR);
    const Received received = receive_all(server);
    EXPECT_TRUE(received.in_order) << received.status;
    ASSERT_EQ(received.bytes.size(), sent);
    EXPECT_TRUE(std::equal(received.bytes.begin(), received.bytes.end(), bytes.begin()));
  }
}

TEST(Relay, ThreeHundredConnectionsAreCarriedAtOnce) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  Network network({.up = {.mbps = 500, .delay = milliseconds(2)}, .down = {.delay = milliseconds(2)}});
  std::vector<Ends> ends;
  for (int i = 0; i < 300; ++i) ends.push_back(network.connect());
  const auto bytes = sample_bytes(20'000);
  for (auto& [client, server] : ends) {
    ASSERT_TRUE(client.send(bytes, soon()).ok());
    ASSERT_TRUE(server.send(bytes, soon()).ok());
  }
  for (auto& [client, server] : ends) {
    EXPECT_TRUE(receive_all(server, bytes.size()).bytes == bytes);
    EXPECT_TRUE(receive_all(client, bytes.size()).bytes == bytes);
  }
  EXPECT_EQ(network.relay().statistics().connections, 300U);
}

TEST(Relay, BusyRelayCanBeDestroyedAndItsConnectionsAreReset) {
  auto network = std::make_unique<Network>(Profile{.down = {.mbps = 100, .delay = milliseconds(50)}});
  std::vector<Ends> ends;
  for (int i = 0; i < 4; ++i) ends.push_back(network->connect());
  const auto bytes = sample_bytes(1 << 20);
  const Wait wait = soon();
  std::vector<Status> statuses(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Socket& from = i % 2 == 0 ? ends[i / 2].client : ends[i / 2].server;
      while (statuses[i].ok()) statuses[i] = from.send(bytes, wait);
    });
  }
  for (auto& [client, server] : ends) {
    EXPECT_FALSE(receive_all(server, 1 << 20).bytes.empty());
    EXPECT_FALSE(receive_all(client, 1 << 16).bytes.empty());
  }
  Ends idle = network->connect();
  network.reset();
  EXPECT_TRUE(is_reset(receive_all(idle.client)));
  EXPECT_TRUE(is_reset(receive_all(idle.server)));
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_EQ(status.code(), Code::kUnavailable) << status;
}

TEST(Relay, ProfileThatCannotBeAndTakenPortAreRefused) {
  EXPECT_EQ(Relay::open({"127.0.0.1", 0}, {"127.0.0.1", 1}, {.up = {.mbps = -1}}).status().code(), Code::kInvalid);
  Network network;
  EXPECT_EQ(network.relay().set_profile({.cut_min_bytes = 1}).code(), Code::kInvalid);
  const auto second = Relay::open(network.server_address(), {"127.0.0.1", 1});
  EXPECT_EQ(second.status().code(), Code::kUnavailable) << second.status();
}

}  // namespace
}  // namespace ravnest::relay
