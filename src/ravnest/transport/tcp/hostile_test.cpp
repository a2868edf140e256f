// Endpoints among strangers and liars: what they do is noticed, bounded and harmless to everyone else.
//
// In each test two endpoints, a and b, talk to each other all the time. Afterwards they still do, nothing that was not
// sent by b has arrived at a, memory has not grown by much, and the log has hardly a line more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/transport/resident.h"
#include "ravnest/transport/tcp/child.h"
#include "ravnest/transport/tcp/stranger.h"
#include "ravnest/transport/tcp/testing.h"
#include "ravnest/transport/testing.h"
#include "ravnest/wire/crc32c.h"

namespace ravnest::transport::tcp {
namespace {

using testing::HasSubstr;
using wire::FrameKind;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMostGrowth = std::uint64_t{1} << 40;  // sanitizers keep what was freed
constexpr int kScale = 10;
#else
constexpr std::uint64_t kMostGrowth = 48 << 20;
constexpr int kScale = 1;
#endif

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class Hostile : public testing::TestWithParam<bool> {
 protected:
  Hostile() {
    // Both ends of all connections are in this process.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ports_ = {{"a", free_port()}, {"b", free_port()}, {"liar", free_port()}};
    a_ = open_node("a", {"b", "liar"}, Logger("a", Level::kDebug, log_));
    b_ = open_node("b", {"a"}, no_log());
    EXPECT_TRUE(next_state(*a_, "b", PeerState::kUp).ok());
    if (secure()) {
      auto tls = TlsContext::create(identity_of(authority_, "liar"));
      EXPECT_TRUE(tls.ok()) << tls.status();
      liars_tls_ = std::move(tls).value();
    }
    echo_ = std::thread([this] { echo(); });
    talk_ = std::thread([this] { talk(); });
    wait_for_rounds(20);
    resident_before_ = resident_bytes();
  }

  ~Hostile() override {
    ending_ = true;
    talk_.join();
    (void)b_->close(in_seconds(0));
    echo_.join();
    b_.reset();
    a_.reset();
    const std::string written = log_.str();
    const auto lines = std::ranges::count(written, '\n');
    const double seconds = std::chrono::duration<double>(SystemClock().now() - start_).count();
    EXPECT_LE(static_cast<double>(lines), 2 * seconds + 5) << "the log is flooded";
  }

  bool secure() const { return GetParam(); }
  const TlsContext* tls() const { return liars_tls_ ? &*liars_tls_ : nullptr; }

  Options node_options(const std::string& name, const std::vector<std::string>& peers, const Logger& log) {
    Options options;
    options.name = name;
    options.plan = "test";
    options.software = "0";
    options.listen = {"127.0.0.1", ports_.at(name)};
    for (const std::string& peer : peers) options.peers.push_back({peer, {"127.0.0.1", ports_.at(peer)}});
    options.session = {
        .chunk_bytes = 64 << 10, .window_bytes = 1 << 20, .queue_bytes = 1 << 20, .max_message_bytes = 8 << 20};
    options.log = log;
    options.insecure = secure() ? Insecure::kNo : Insecure::kOnLoopback;
    if (secure()) options.identity = identity_of(authority_, name);
    return options;
  }
  std::unique_ptr<Endpoint> open_node(const std::string& name, const std::vector<std::string>& peers,
                                      const Logger& log) {
    auto endpoint = open(node_options(name, peers, log));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return std::move(endpoint).value();
  }

  // At a's port, with the identity of the node "liar" where there are any.
  Stranger stranger() {
    auto connected = Stranger::connect(ports_.at("a"), tls());
    EXPECT_TRUE(connected.ok()) << connected.status();
    return std::move(connected).value();
  }
  wire::Hello liars_hello(std::uint64_t session) const {
    wire::Hello hello;
    hello.plan = "test";
    hello.from = "liar";
    hello.to = "a";
    hello.session = session;
    return hello;
  }
  // In a session with a.
  Stranger liar(std::uint64_t session) {
    Stranger connected = stranger();
    EXPECT_TRUE(connected.say(liars_hello(session)).ok());
    EXPECT_TRUE(connected.next(FrameKind::kHello).has_value());
    return connected;
  }

  void wait_for_rounds(std::uint64_t more) {
    const std::uint64_t goal = rounds_ + more;
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(round_.wait_for(lock, std::chrono::seconds(60), [&] { return rounds_ >= goal || broken_; }))
        << "a and b do not talk any more";
    ASSERT_FALSE(broken_);
  }
  void expect_unharmed() {
    wait_for_rounds(20);
    EXPECT_EQ(strange_messages_, 0) << "a lie was delivered";
    const std::uint64_t now = resident_bytes();
    EXPECT_LE(now, resident_before_ + kMostGrowth) << (now - resident_before_) / 1024 << " KB more";
    EXPECT_EQ(b_losses_, 0);
  }

  plan::Authority authority_ = new_authority();
  std::map<std::string, std::uint16_t> ports_;
  std::ostringstream log_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  std::optional<TlsContext> liars_tls_;
  std::atomic<std::uint64_t> strange_messages_ = 0;
  std::atomic<std::uint64_t> welcome_messages_ = 0;  // of the liar, numbered 4242

 private:
  void echo() {
    for (;;) {
      auto event = next_message(*b_);
      if (!event.ok()) return;
      (void)b_->send("a", std::move(std::get<wire::Message>(event->what)), Priority::kNormal, {}, patiently());
    }
  }
  void talk() {
    for (std::uint64_t i = 0; !ending_; ++i) {
      if (!a_->send("b", filled(i, 3000), Priority::kNormal, {}, patiently()).ok() || !hear(i)) {
        const std::lock_guard lock(mutex_);
        broken_ = true;
        round_.notify_all();
        return;
      }
      const std::lock_guard lock(mutex_);
      ++rounds_;
      round_.notify_all();
    }
  }
  bool hear(std::uint64_t number) {
    for (;;) {
      const auto event = a_->receive(patiently());
      if (!event.ok()) return false;
      if (const auto* change = std::get_if<PeerChange>(&event->what)) {
        if (event->peer == "b" && change->state == PeerState::kLost) ++b_losses_;
        continue;
      }
      const auto& message = std::get<wire::Message>(event->what);
      if (event->peer == "b") return number_of(message) == number && is_intact(message);
      ++(number_of(message) == 4242 ? welcome_messages_ : strange_messages_);
    }
  }

  const TimePoint start_ = SystemClock().now();
  std::uint64_t resident_before_ = 0;
  std::atomic<bool> ending_ = false;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::atomic<std::uint64_t> b_losses_ = 0;
  bool broken_ = false;
  std::mutex mutex_;
  std::condition_variable round_;
  std::thread echo_;
  std::thread talk_;
};

// -- those who do not know the protocol

TEST_P(Hostile, GarbageIsThrownOut) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    auto connected = Stranger::connect(ports_.at("a"), nullptr);
    ASSERT_TRUE(connected.ok()) << connected.status();
    (void)connected->say(random_bytes(random, 1 + random() % 100'000));
    if (i % 3 == 0) continue;  // and goes away
    // Fewer bytes than a header is, and silence, is another case.
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
        const auto header = wire::encode(
            wire::FrameHeader{FrameKind::kHello, 0, static_cast<std::uint32_t>(hello.size()), wire::crc32c(hello) ^ 1});
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

TEST_P(Hostile, ANodeOfAnotherPlanIsRefused) {
  if (secure()) {
    const plan::Authority other = new_authority("other");
    plan::StoredIdentity identity = identity_of(other, "b");
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
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->farewell, wire::Farewell::kRefused);
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
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->farewell, wire::Farewell::kRefused);
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
    EXPECT_EQ(wire::decode_goodbye(*goodbye)->farewell, wire::Farewell::kBroken);
    EXPECT_TRUE(lying.is_thrown_out()) << "lie " << i;
  }
  expect_unharmed();
}

TEST_P(Hostile, AWrongChecksumCostsAConnectionAndNoMessage) {
  const auto encoded = wire::encode(numbered(4242));
  std::vector<std::byte> bytes;
  for (const wire::Slice& part : encoded->parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  std::uint64_t as_seen_by_a = 0;
  {
    Stranger node = stranger();
    ASSERT_TRUE(node.say(liars_hello(7)).ok());
    const auto hello = node.next(FrameKind::kHello);
    ASSERT_TRUE(hello.has_value());
    as_seen_by_a = wire::decode_hello(*hello)->session;
    std::vector<std::byte> body = wire::encode(wire::Chunk{0, bytes.size(), 0});
    body.insert(body.end(), bytes.begin(), bytes.begin() + 10);
    // The first half as it is, the second one with a flipped bit on the way.
    ASSERT_TRUE(node.say(FrameKind::kChunk, 1, body).ok());
    body = wire::encode(wire::Chunk{0, bytes.size(), 10});
    body.insert(body.end(), bytes.begin() + 10, bytes.end());
    const auto header = wire::encode(
        wire::FrameHeader{FrameKind::kChunk, 1, static_cast<std::uint32_t>(body.size()), wire::crc32c(body)});
    body.back() ^= std::byte{4};
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
      wire::FrameHeader{FrameKind::kHello, 0, static_cast<std::uint32_t>(hello.size()), wire::crc32c(hello)});
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

// -- alone with a liar

Options alone(std::uint16_t port) {
  Options options;
  options.name = "a";
  options.plan = "test";
  options.listen = {"127.0.0.1", port};
  options.peers = {{"liar", {"127.0.0.1", free_port()}}};
  options.insecure = Insecure::kOnLoopback;
  options.log = no_log();
  return options;
}

Result<Stranger> liar_at(std::uint16_t port) {
  auto liar = Stranger::connect(port, nullptr);
  if (!liar.ok()) return liar;
  wire::Hello hello;
  hello.plan = "test";
  hello.from = "liar";
  hello.to = "a";
  hello.session = 1;
  Status said = liar->say(hello);
  return said.ok() ? std::move(liar) : Result<Stranger>(said);
}

TEST(HostileAlone, MoreThanTheWindowEndsTheConnection) {
  const std::uint16_t port = free_port();
  Options options = alone(port);
  options.session.window_bytes = 1 << 20;
  auto a = open(std::move(options));  // whose application does not read
  ASSERT_TRUE(a.ok()) << a.status();
  auto liar = liar_at(port);
  ASSERT_TRUE(liar.ok()) << liar.status();
  const auto encoded = wire::encode(filled(0, 100'000));
  std::vector<std::byte> bytes;
  for (const wire::Slice& part : encoded->parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (!liar->say_chunk(2, {i, bytes.size(), 0}, bytes).ok()) break;
  }
  const auto goodbye = liar->next(FrameKind::kGoodbye);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_THAT(wire::decode_goodbye(*goodbye)->reason, HasSubstr("more than it may"));
  EXPECT_LE((*a)->statistics("liar")->unread_bytes, (1 << 20) + 2 * bytes.size());
}

// -- a machine at its end

TEST(HostileAlone, AFullConnectionDoesNotKeepTheProcessorBusy) {
  const std::uint16_t port = free_port();
  Options options = alone(port);
  options.session.queue_bytes = 16 << 20;
  auto a = open(std::move(options));
  ASSERT_TRUE(a.ok()) << a.status();
  auto deaf = liar_at(port);
  ASSERT_TRUE(deaf.ok()) << deaf.status();
  ASSERT_TRUE(next_state(**a, "liar", PeerState::kUp).ok());
  while ((*a)->send("liar", filled(0, 1 << 20), Priority::kBulk, {}, in_seconds(0)).ok()) {
  }
  const auto used_s = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before = used_s();
  // Waits for room, which does not come; by then it has a heartbeat to send that does not fit either.
  EXPECT_FALSE((*a)->send("liar", filled(0, 1 << 20), Priority::kBulk, {}, in_seconds(2)).ok());
  EXPECT_LT(used_s() - before, 0.25);
}

TEST(HostileAlone, WithoutFileDescriptorsThoseWhoAreConnectedGoOn) {
  const std::uint16_t own_port = free_port();
  const std::uint16_t node_port = free_port();
  Child node({ECHO_NODE, "b", std::to_string(node_port), "a", std::to_string(own_port), "60"});
  ASSERT_TRUE(node.runs());
  const auto open_a = [&] {
    Options options = alone(own_port);
    options.peers = {{"b", {"127.0.0.1", node_port}}};
    return open(std::move(options));
  };
  auto a = open_a();
  ASSERT_TRUE(a.ok()) << a.status();
  const auto talk = [&](std::uint64_t first) {
    for (std::uint64_t i = first; i < first + 50; ++i) {
      ASSERT_TRUE((*a)->send("b", filled(i, 2000), Priority::kNormal, {}, patiently()).ok());
      const auto event = next_message(**a);
      ASSERT_TRUE(event.ok()) << event.status();
      ASSERT_EQ(number_of(std::get<wire::Message>(event->what)), i);
    }
  };
  talk(0);
  const std::uint64_t before = resident_bytes(std::to_string(node.pid()));
  std::vector<Socket> sockets;
  for (int i = 0; i < 150; ++i) {
    auto socket = Socket::connect({"127.0.0.1", node_port}, Stranger::patience());
    ASSERT_TRUE(socket.ok()) << socket.status();
    sockets.push_back(std::move(socket).value());
  }
  talk(100);
  EXPECT_LE(resident_bytes(std::to_string(node.pid())), before + kMostGrowth);
  EXPECT_EQ((*a)->statistics("b")->connections, 1);
  // Afterwards others get in again.
  sockets.clear();
  a->reset();
  a = open_a();
  ASSERT_TRUE(a.ok()) << a.status();
  talk(200);
}

}  // namespace
}  // namespace ravnest::transport::tcp
