// Endpoints among strangers and liars: what they do is noticed, bounded and harmless to everyone else.
//
// In each test two endpoints, a and b, talk to each other all the time. Afterwards they still do, nothing that was not
// sent by b has arrived at a, memory has not grown by much, and the log has hardly a line more.
#include "ravnest/transport/tcp/testing/hostile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ravnest/codec/crc32c.h"

namespace ravnest::transport::tcp {
namespace {

using testing::HasSubstr;
using wire::FrameKind;

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// -- those who do not know the protocol

TEST_P(Hostile, GarbageIsThrownOut) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    auto connected = Stranger::connect(ports_.at("a"), nullptr);
    ASSERT_TRUE(connected.ok()) << connected.status();
    (void)connected->say(random_bytes(random, 1 + random() % 100'000));
    if (i % 3 == 0) continue;  // and goes away
    // Fewer bytes than a header has would only be silence.
    (void)connected->say(as_byte_span("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    EXPECT_TRUE(connected->is_thrown_out());
  }
  expect_unharmed();
}

TEST_P(Hostile, FramesBeforeTheHelloAreThrownOut) {
  std::mt19937_64 random(2);
  const std::vector<std::byte> body = random_bytes(random, 200);
  const std::vector<std::function<Status(Stranger&)>> lies = {
      [&](Stranger& s) {
        return s.say_chunk(0, {0, 1000, 0}, body);
      },
      [&](Stranger& s) {
        return s.say_chunk(0, {0, UINT64_MAX, 0}, body);
      },
      [&](Stranger& s) {
        return s.say(FrameKind::kAcknowledge, 0, wire::encode(wire::Acknowledge{{9, 9, 9}}));
      },
      [&](Stranger& s) {
        return s.say(FrameKind::kHeartbeat, 0, wire::encode(wire::Heartbeat{1, 2, 3}));
      },
      [&](Stranger& s) { return s.say(FrameKind::kProbe, 0, wire::encode(wire::Probe{})); },
      [&](Stranger& s) { return s.say(FrameKind::kGoodbye, 0, wire::encode(wire::Goodbye{})); },
      [&](Stranger& s) { return s.say(FrameKind::kHello, 0, body); },
      [&](Stranger& s) {
        return s.say(wire::encode(wire::FrameHeader{FrameKind::kHello, 0, 0xffffffff, 0}));
      },
      [&](Stranger& s) {
        return s.say(wire::encode(wire::FrameHeader{FrameKind::kHello, 0, 0, 77}));
      },
      [&](Stranger& s) {
        return s.say(wire::encode(wire::FrameHeader{FrameKind::kHello, 200, 100, 0}));
      },
      [&](Stranger& s) {
        std::vector<std::byte> hello = wire::encode(liars_hello(1));
        const auto header = wire::encode(wire::FrameHeader{
            FrameKind::kHello, 0, static_cast<std::uint32_t>(hello.size()), codec::crc32c(hello) ^ 1});
        if (Status said = s.say(header); !said.ok()) return said;
        return s.say(hello);
      },
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    Stranger lying = stranger();
    (void)lies[i](lying);
    EXPECT_TRUE(lying.is_thrown_out()) << "lie " << i;
  }
  expect_unharmed();
}

// -- those who are not who they should be

TEST_P(Hostile, AChunkNeedsNoChecksumWhereTlsHasOneAndOnlyThere) {
  const auto encoded = wire::encode(numbered(1));
  ASSERT_TRUE(encoded.ok());
  std::vector<std::byte> bytes;
  for (const Slice& part : encoded->parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  std::vector<std::byte> body = wire::encode(wire::Chunk{0, bytes.size(), 0});
  body.insert(body.end(), bytes.begin(), bytes.end());
  const auto header =
      wire::encode(wire::FrameHeader{FrameKind::kChunk, 1, static_cast<std::uint32_t>(body.size()), /*checksum=*/0});
  Stranger node = stranger();
  ASSERT_TRUE(node.say(liars_hello(7)).ok());
  ASSERT_TRUE(node.next(FrameKind::kHello).has_value());
  ASSERT_TRUE(node.say(header).ok());
  ASSERT_TRUE(node.say(body).ok());
  EXPECT_TRUE(node.next(secure() ? FrameKind::kAcknowledge : FrameKind::kGoodbye).has_value());
}

TEST_P(Hostile, ANodeOfAnotherPlanIsRefused) {
  if (secure()) {
    const identity::Authority other = new_authority("other");
    identity::StoredIdentity identity = identity_of(other, "b");
    auto tls = TlsContext::create(identity);
    ASSERT_TRUE(tls.ok());
    // It does not trust a either; with a's authority in hand, a still does not trust it.
    EXPECT_FALSE(Stranger::connect(ports_.at("a"), &*tls).ok());
    identity.authority_certificate = authority_.certificate();
    auto knowing = TlsContext::create(identity);
    ASSERT_TRUE(knowing.ok());
    auto connected = Stranger::connect(ports_.at("a"), &*knowing);
    if (connected.ok()) {
      (void)connected->say(liars_hello(1));
      EXPECT_FALSE(connected->next(FrameKind::kHello).has_value());
    }
  } else {
    Stranger other = stranger();
    wire::Hello hello = liars_hello(1);
    hello.plan = "other";
    ASSERT_TRUE(other.say(hello).ok());
    const auto goodbye = other.next(FrameKind::kGoodbye);
    ASSERT_TRUE(goodbye.has_value());
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->code, wire::GoodbyeCode::kRefused);
  }
  expect_unharmed();
}

TEST_P(Hostile, ANodeThatCallsItselfAnotherIsRefused) {
  for (const std::string name : {"a", "zed", "", "b\n", "b"}) {
    if (name == "b" && !secure()) continue;  // in the clear anyone can be b: that is why it has to be asked for
    Stranger lying = stranger();
    wire::Hello hello = liars_hello(1);
    hello.from = name;
    ASSERT_TRUE(lying.say(hello).ok());
    const auto goodbye = lying.next(FrameKind::kGoodbye);
    ASSERT_TRUE(goodbye.has_value()) << name;
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->code, wire::GoodbyeCode::kRefused);
    EXPECT_TRUE(lying.is_thrown_out());
  }
  expect_unharmed();
}

// -- a node of the plan that lies

TEST_P(Hostile, LiesInASessionEndTheConnection) {
  std::mt19937_64 random(3);
  const std::vector<std::byte> data = random_bytes(random, 1000);
  const std::vector<std::function<Status(Stranger&)>> lies = {
      // A huge message, a message longer than is allowed, a chunk that is not the next.
      [&](Stranger& s) {
        return s.say_chunk(0, {0, UINT64_MAX, 0}, data);
      },
      [&](Stranger& s) {
        return s.say_chunk(0, {0, (8 << 20) + 1, 0}, data);
      },
      [&](Stranger& s) {
        return s.say_chunk(1, {5, 5000, 0}, data);
      },
      [&](Stranger& s) {
        return s.say_chunk(1, {0, 5000, 1000}, data);
      },
      [&](Stranger& s) {
        return s.say_chunk(1, {0, 999, 0}, data);
      },
      // What is no message at all.
      [&](Stranger& s) {
        return s.say_chunk(2, {0, 1000, 0}, data);
      },
      // What was not sent is acknowledged.
      [&](Stranger& s) {
        return s.say(FrameKind::kAcknowledge, 0, wire::encode(wire::Acknowledge{{1, 0, 0}}));
      },
      [&](Stranger& s) {
        return s.say(FrameKind::kAcknowledge, 3, wire::encode(wire::Acknowledge{{0, 0, 5}}));
      },
      [&](Stranger& s) { return s.say(FrameKind::kAcknowledge, 0, {}); },
      // Frames that have no place here.
      [&](Stranger& s) { return s.say(liars_hello(1)); },
      [&](Stranger& s) { return s.say(FrameKind::kProbe, 0, wire::encode(wire::Probe{})); },
      [&](Stranger& s) { return s.say(FrameKind::kHeartbeat, 0, {std::byte{1}}); },
      [&](Stranger& s) { return s.say(FrameKind::kGoodbye, 0, {std::byte{99}}); },
      [&](Stranger& s) { return s.say(data); },
  };
  for (std::size_t i = 0; i < lies.size(); ++i) {
    Stranger lying = liar(100 + i);
    (void)lying.say(FrameKind::kHeartbeat, 0, wire::encode(wire::Heartbeat{INT64_MIN, INT64_MIN, INT64_MIN}));
    (void)lies[i](lying);
    // Not only for its silence.
    const auto goodbye = lying.next(FrameKind::kGoodbye);
    ASSERT_TRUE(goodbye.has_value()) << "lie " << i;
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->code, wire::GoodbyeCode::kBroken);
    EXPECT_TRUE(lying.is_thrown_out()) << "lie " << i;
  }
  expect_unharmed();
}

TEST_P(Hostile, AWrongChecksumCostsAConnectionAndNoMessage) {
  const auto encoded = wire::encode(numbered(4242));
  std::vector<std::byte> bytes;
  for (const Slice& part : encoded->parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  std::uint64_t as_seen_by_a = 0;
  {
    Stranger node = stranger();
    ASSERT_TRUE(node.say(liars_hello(7)).ok());
    const auto hello = node.next(FrameKind::kHello);
    ASSERT_TRUE(hello.has_value());
    as_seen_by_a = wire::decode_hello(*hello)->session;
    std::vector<std::byte> body = wire::encode(wire::Chunk{0, bytes.size(), 0});
    body.insert(body.end(), bytes.begin(), bytes.begin() + 10);
    // The first half as it is, the second one with a flipped bit on the way. Over TLS only the header's is noticed:
    // chunks have no checksum there.
    ASSERT_TRUE(node.say(FrameKind::kChunk, 1, body).ok());
    body = wire::encode(wire::Chunk{0, bytes.size(), 10});
    body.insert(body.end(), bytes.begin() + 10, bytes.end());
    auto header = wire::encode(
        wire::FrameHeader{FrameKind::kChunk, 1, static_cast<std::uint32_t>(body.size()), codec::crc32c(body)});
    (GetParam() ? header.back() : body.back()) ^= std::byte{4};
    ASSERT_TRUE(node.say(header).ok());
    ASSERT_TRUE(node.say(body).ok());
    const auto goodbye = node.next(FrameKind::kGoodbye);
    ASSERT_TRUE(goodbye.has_value());
    EXPECT_THAT(wire::decode_goodbye(*goodbye)->reason, HasSubstr("checksum"));
  }
  // On the next connection a says how far it has come, and gets the rest.
  Stranger node = stranger();
  wire::Hello again = liars_hello(7);
  again.peer_session = as_seen_by_a;
  ASSERT_TRUE(node.say(again).ok());
  const auto hello = node.next(FrameKind::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(wire::decode_hello(*hello)->received[1].message, 0);
  EXPECT_EQ(wire::decode_hello(*hello)->received[1].offset, 10);
  ASSERT_TRUE(node.say_chunk(1, {0, bytes.size(), 10}, ByteSpan(bytes).subspan(10)).ok());
  ASSERT_TRUE(node.next(FrameKind::kAcknowledge).has_value());
  wait_for_rounds(5);
  EXPECT_EQ(welcome_messages_, 1);
  expect_unharmed();
}

TEST_P(Hostile, APeerThatNeverReadsCostsNoMoreThanItsQueue) {
  Stranger deaf = liar(1);
  Status refused;
  std::uint64_t accepted = 0;
  while (refused.ok() && accepted < 1000) {
    refused = a_->send("liar", filled(accepted, 100'000), Priority::kBulk, {}, in_seconds(1));
    accepted += refused.ok() ? 1 : 0;
  }
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused;
  EXPECT_LT(accepted, 40);
  expect_unharmed();
}

// -- many of them

TEST_P(Hostile, SlowStrangersAreBoundedInNumber) {
  constexpr std::size_t kMany = 400;
  std::vector<Stranger> strangers;
  const std::vector<std::byte> hello = wire::encode(liars_hello(1));
  const auto header = wire::encode(
      wire::FrameHeader{FrameKind::kHello, 0, static_cast<std::uint32_t>(hello.size()), codec::crc32c(hello)});
  for (std::size_t i = 0; i < kMany; ++i) {
    // In the clear also where the port speaks TLS: these never finish a handshake.
    auto connected = Stranger::connect(ports_.at("a"), nullptr);
    ASSERT_TRUE(connected.ok()) << connected.status();
    strangers.push_back(std::move(connected).value());
  }
  // One byte at a time: of a hello, or of the start of a TLS handshake.
  const std::vector<std::byte> tls_start = {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}};
  const ByteSpan slow = secure() ? ByteSpan(tls_start) : ByteSpan(header);
  for (std::size_t at = 0; at < slow.size(); ++at) {
    for (std::size_t i = 0; i < strangers.size(); i += 2) (void)strangers[i].say(slow.subspan(at, 1));
    wait_for_rounds(2);
  }
  const auto thrown_out = std::ranges::count_if(strangers, [](Stranger& s) { return s.was_thrown_out(); });
  EXPECT_GE(static_cast<std::size_t>(thrown_out), kMany - kMostStrangers);
  // A node of the plan still gets in.
  (void)liar(5);
  expect_unharmed();
}

TEST_P(Hostile, ThoseWhoOnlyAskAreBoundedInNumber) {
  std::vector<Stranger> askers;
  std::size_t turned_away = 0;
  for (std::size_t i = 0; i < 2 * kMostProbes; ++i) {
    Stranger asker = stranger();
    wire::Hello hello = liars_hello(0);
    hello.purpose = wire::Purpose::kProbe;
    ASSERT_TRUE(asker.say(hello).ok());
    turned_away += asker.next(FrameKind::kHello).has_value() ? 0 : 1;
    askers.push_back(std::move(asker));
  }
  EXPECT_GE(turned_away, kMostProbes);
  expect_unharmed();
}

TEST_P(Hostile, TenThousandConnectionsInARow) {
  for (int i = 0; i < 10'000 / kScale; ++i) {
    auto socket = Socket::connect({"127.0.0.1", ports_.at("a")}, Stranger::patience());
    ASSERT_TRUE(socket.ok()) << i << ": " << socket.status();
    if (i % 100 == 0) wait_for_rounds(1);
  }
  (void)liar(5);
  expect_unharmed();
}

TEST_P(Hostile, AThousandConnectionsAtOnce) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2500) GTEST_SKIP() << "this machine allows only " << limit.rlim_cur << " open files";
  std::vector<Socket> sockets;
  for (int i = 0; i < 1000; ++i) {
    auto socket = Socket::connect({"127.0.0.1", ports_.at("a")}, Stranger::patience());
    ASSERT_TRUE(socket.ok()) << i << ": " << socket.status();
    sockets.push_back(std::move(socket).value());
  }
  wait_for_rounds(20);
  (void)liar(5);
  expect_unharmed();
}

INSTANTIATE_TEST_SUITE_P(Ports, Hostile, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace ravnest::transport::tcp
