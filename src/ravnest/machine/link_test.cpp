#include "ravnest/machine/testing/link.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <thread>
#include <vector>

#include "ravnest/machine/link_client.h"
#include "ravnest/machine/link_protocol.h"
#include "ravnest/machine/link_server.h"
#include "ravnest/net/socket.h"
#include "ravnest/net/testing/free_port.h"

namespace ravnest {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const LinkOptions kQuick{5, milliseconds(100), seconds(30)};

Wait soon() { return Wait::of(seconds(20)); }

Socket connected(const RunningServer& server) {
  auto socket = Socket::connect(server.address(), soon());
  EXPECT_TRUE(socket.ok()) << socket.status();
  return *std::move(socket);
}

// Waits until the server has closed the connection, orderly or not, having sent nothing more.
::testing::AssertionResult is_closed(Socket& socket) {
  std::array<std::byte, 1> byte{};
  const auto received = socket.receive_some(byte, soon());
  if (received.ok() ? *received == 0 : received.status().code() == Code::kUnavailable) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << (received.ok() ? "a byte came" : received.status().message());
}

// A client that has said its hello and been told that it may go on.
Socket introduced(const RunningServer& server) {
  Socket socket = connected(server);
  EXPECT_TRUE(socket.send(encode(LinkHello{1, 100}), soon()).ok());
  std::array<std::byte, kAnswerBytes> answer{};
  EXPECT_TRUE(socket.receive(answer, soon()).ok());
  EXPECT_EQ(decode_answer(answer).value(), LinkAnswer::kReady);
  return socket;
}

TEST(Link, BothDirectionsAndTheLatencyOfLoopbackAreMeasured) {
  RunningServer server({"127.0.0.1"});
  const auto measured = measure_link(server.address(), kQuick);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GT(measured->up_mbps, 1);
  EXPECT_GT(measured->down_mbps, 1);
  EXPECT_EQ(measured->bandwidth_mbps(), std::min(measured->up_mbps, measured->down_mbps));
  EXPECT_GT(measured->latency_ms, 0);
  EXPECT_LT(measured->latency_ms, 1000);
}

TEST(Link, ServerWithoutAHostIsReachedByNameAndByBothKindsOfAddress) {
  RunningServer server({""});
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    if (host == std::string_view("::1") && !Listener::open("::1", 0).ok()) continue;  // a machine without IPv6
    const auto measured = measure_link({host, server.address().port}, kQuick);
    EXPECT_TRUE(measured.ok()) << host << ": " << measured.status();
  }
}

TEST(Link, StrangerIsCutOffWithoutAnAnswerAndTheNextClientIsServed) {
  RunningServer server({"127.0.0.1"});
  Socket stranger = connected(server);
  ASSERT_TRUE(stranger.send(as_byte_span("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), soon()).ok());
  EXPECT_TRUE(is_closed(stranger));
  EXPECT_TRUE(measure_link(server.address(), kQuick).ok());
}

TEST(Link, SilentClientKeepsNoOneOutAndIsCutOffAfterTheHelloLimit) {
  RunningServer server({.host = "127.0.0.1", .hello_limit = milliseconds(1500)});
  Socket silent = connected(server);
  EXPECT_TRUE(measure_link(server.address(), kQuick).ok());
  EXPECT_TRUE(is_closed(silent));
}

TEST(Link, SecondClientIsToldThatThePeerIsBusyAndServedWhenTheFirstIsGone) {
  RunningServer server({"127.0.0.1"});
  {
    const Socket first = introduced(server);
    const Status busy = measure_link(server.address(), kQuick).status();
    EXPECT_EQ(busy.code(), Code::kUnavailable);
    EXPECT_NE(busy.message().find("another client"), std::string::npos) << busy;
  }
  const SystemClock clock;
  const TimePoint deadline = clock.now() + seconds(20);
  Status status = unavailable("not tried");
  while (!status.ok() && clock.now() < deadline) status = measure_link(server.address(), kQuick).status();
  EXPECT_EQ(status, Status());
}

TEST(Link, ClientThatStopsInTheMiddleIsCutOffAfterTheClientLimit) {
  RunningServer server({.host = "127.0.0.1", .client_limit = milliseconds(300)});
  Socket stuck = introduced(server);
  EXPECT_TRUE(is_closed(stuck));
}

TEST(Link, ClientThatNeverEndsItsStreamIsCutOffAfterTheClientLimit) {
  RunningServer server({.host = "127.0.0.1", .client_limit = milliseconds(500)});
  Socket flood = introduced(server);
  const std::vector<std::byte> zeros(1 << 16);
  const Wait wait = soon();
  Status status;
  while (status.ok()) status = flood.send(zeros, wait);
  EXPECT_EQ(status.code(), Code::kUnavailable);
}

TEST(Link, ClientOfAnotherVersionLearnsThatItIsRefused) {
  RunningServer server({"127.0.0.1"});
  Socket other = connected(server);
  auto hello = encode(LinkHello{1, 100});
  hello[8] = std::byte{2};
  ASSERT_TRUE(other.send(hello, soon()).ok());
  std::array<std::byte, kAnswerBytes> answer{};
  ASSERT_TRUE(other.receive(answer, soon()).ok());
  EXPECT_EQ(decode_answer(answer).value(), LinkAnswer::kRefused);
  EXPECT_TRUE(is_closed(other));
}

TEST(Link, AskingForMoreThanIsServedIsRefused) {
  RunningServer server({"127.0.0.1"});
  EXPECT_EQ(measure_link(server.address(), {kMaxEchoes + 1, milliseconds(100)}).status().code(), Code::kInvalid);
}

TEST(Link, MoreConnectionsThanAllowedAreClosedAtOnce) {
  RunningServer server({.host = "127.0.0.1", .hello_limit = minutes(1)});
  std::vector<Socket> held;
  for (std::size_t i = 0; i < kMaxLinkConnections; ++i) held.push_back(connected(server));
  Socket one_more = connected(server);
  EXPECT_TRUE(is_closed(one_more));
}

TEST(Link, StopEndsTheServerAtOnceWithItsConnections) {
  RunningServer server({.host = "127.0.0.1", .hello_limit = hours(1), .client_limit = hours(1)});
  Socket silent = connected(server);
  Socket measured = introduced(server);
  server.stop();
  EXPECT_EQ(server.join().code(), Code::kCancelled);
  EXPECT_TRUE(is_closed(silent));
  EXPECT_TRUE(is_closed(measured));
}

TEST(Link, ServerEndsByItselfWhenItsTimeIsOver) {
  RunningServer server({.host = "127.0.0.1", .hello_limit = minutes(1)}, milliseconds(1500));
  Socket silent = connected(server);
  EXPECT_EQ(server.join(), Status());
}

TEST(Link, NobodyAtTheAddressIsUnavailable) {
  const std::uint16_t port = free_port();
  const Status status = measure_link({"127.0.0.1", port}, kQuick).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find(text("127.0.0.1:", port)), std::string::npos) << status;
}

TEST(Link, SomeoneElseAtTheAddressIsCorruptAndASilentOneEndsAtTheTimeout) {
  auto listener = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const Address address{"127.0.0.1", listener->port()};
  EXPECT_EQ(measure_link(address, {5, milliseconds(100), milliseconds(200)}).status().code(), Code::kDeadline);
  ASSERT_TRUE(listener->accept(soon()).ok());
  std::thread stranger([&] {
    auto socket = listener->accept(soon());
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(socket->send(as_byte_span("220 mail.example ESMTP\r\n"), soon()).ok());
    std::array<std::byte, kHelloBytes> hello{};
    EXPECT_TRUE(socket->receive(hello, soon()).ok());
  });
  EXPECT_EQ(measure_link(address, kQuick).status().code(), Code::kCorrupt);
  stranger.join();
}

TEST(Link, StopEndsAClientThatWaits) {
  auto listener = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EventDescriptor stop;
  stop.raise();
  EXPECT_EQ(measure_link({"127.0.0.1", listener->port()}, kQuick, stop.number()).status().code(), Code::kCancelled);
}

TEST(Link, TakenPortAndForeignHostAreRefusedWithTheReason) {
  auto listener = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(LinkServer::open({"127.0.0.1", listener->port()}).status().code(), Code::kUnavailable);
  EXPECT_EQ(LinkServer::open({"192.0.2.1"}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest
