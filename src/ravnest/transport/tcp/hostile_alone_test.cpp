// One endpoint with a liar, and a machine at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ravnest/transport/tcp/testing/child.h"
#include "ravnest/transport/tcp/testing/hostile.h"

namespace ravnest::transport::tcp {
namespace {

using testing::HasSubstr;
using wire::FrameKind;

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

Result<Stranger> liar_at(std::uint16_t port, std::uint64_t session = 1) {
  auto liar = Stranger::connect(port, nullptr);
  if (!liar.ok()) return liar;
  wire::Hello hello;
  hello.plan = "test";
  hello.from = "liar";
  hello.to = "a";
  hello.session = session;
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
  for (const Slice& part : encoded->parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (!liar->say_chunk(2, {i, bytes.size(), 0}, bytes).ok()) break;
  }
  const auto goodbye = liar->next(FrameKind::kGoodbye);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_THAT(wire::decode_goodbye(*goodbye)->reason, HasSubstr("more than it may"));
  EXPECT_LE((*a)->statistics("liar")->unread_bytes, (1 << 20) + 2 * bytes.size());
}

#ifndef RAVNEST_SANITIZED
TEST(HostileAlone, WhatIsOnlyAnnouncedTakesNoAddressSpace) {
  const std::uint16_t port = free_port();
  auto a = open(alone(port));
  ASSERT_TRUE(a.ok()) << a.status();
  auto liar = liar_at(port);
  ASSERT_TRUE(liar.ok()) << liar.status();
  ASSERT_TRUE(next_state(**a, "liar", PeerState::kUp).ok());
  const std::uint64_t before = mapped_bytes();
  const std::vector<std::byte> part(1 << 20);
  constexpr std::uint64_t kAnnounced = std::uint64_t{4} << 30;
  for (std::uint8_t lane = 0; lane < wire::kLanes; ++lane) {
    for (std::uint64_t i = 0; i < 12; ++i) {
      ASSERT_TRUE(liar->say_chunk(lane, {0, kAnnounced, i * part.size()}, part).ok());
    }
  }
  const TimePoint deadline = patiently();
  while ((*a)->statistics("liar")->bytes_received < (std::uint64_t{4 * 12} << 20) && SystemClock().now() < deadline) {
    (void)(*a)->receive(in_seconds(0.02));
  }
  EXPECT_GE((*a)->statistics("liar")->bytes_received, std::uint64_t{4 * 12} << 20);
  EXPECT_LE(mapped_bytes(), before + (std::uint64_t{128} << 20));
}
#endif

TEST(HostileAlone, TheNameOfAPeerThatDiedWithoutAWordIsFreeOnceItIsGivenUp) {
  const std::uint16_t port = free_port();
  std::ostringstream log;
  Options options = alone(port);
  options.log = Logger("a", Level::kDebug, log);
  auto a = open(std::move(options));
  ASSERT_TRUE(a.ok()) << a.status();
  auto dead = liar_at(port, 1);  // says nothing, and does not close either
  ASSERT_TRUE(dead.ok()) << dead.status();
  ASSERT_TRUE(dead->next(FrameKind::kHello).has_value());
  auto early = liar_at(port, 2);
  ASSERT_TRUE(early.ok()) << early.status();
  const auto said = early->next(FrameKind::kGoodbye);
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(wire::decode_goodbye(*said)->code, wire::GoodbyeCode::kBusy);
  EXPECT_THAT(wire::decode_goodbye(*said)->reason, HasSubstr("another process is liar and talks to a"));
  std::optional<Stranger> admitted;
  for (const TimePoint deadline = patiently(); !admitted && SystemClock().now() < deadline;) {
    auto anew = liar_at(port, 2);
    ASSERT_TRUE(anew.ok()) << anew.status();
    if (anew->next(FrameKind::kHello).has_value()) admitted = std::move(anew).value();
  }
  EXPECT_TRUE(admitted);
  EXPECT_TRUE(next_state(**a, "liar", PeerState::kLost).ok());
  EXPECT_TRUE(next_state(**a, "liar", PeerState::kUp).ok());
  a->reset();
  const std::string written = log.str();
  const auto first = written.find("refused a second liar");
  EXPECT_NE(first, std::string::npos) << written;
  EXPECT_EQ(written.find("refused a second liar", first + 1), std::string::npos) << "one line is enough";
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

TEST(HostileAlone, APeerOfAnotherPlanIsKnownByACode) {
  const std::map<std::string, std::uint16_t> ports = {{"a", free_port()}, {"b", free_port()}};
  const auto open_at = [&](const std::string& name, const std::string& peer) {
    Options options;
    options.name = name;
    options.plan = "test";
    options.listen = {"127.0.0.1", ports.at(name)};
    options.peers = {{peer, {"127.0.0.1", ports.at(peer)}}};
    options.identity = identity_of(new_authority(), name);  // each of a plan of its own
    options.log = no_log();
    return open(std::move(options));
  };
  const auto a = open_at("a", "b");
  const auto b = open_at("b", "a");
  ASSERT_TRUE(a.ok() && b.ok());
  for (;;) {
    const auto event = (*a)->receive(patiently());
    ASSERT_TRUE(event.ok()) << event.status();
    const auto* change = std::get_if<PeerChange>(&event->what);
    if (change == nullptr || change->trouble == PeerTrouble::kNone) continue;
    EXPECT_EQ(change->trouble, PeerTrouble::kOtherPlan);
    EXPECT_THAT(change->reason, HasSubstr("its certificate is of another plan"));
    EXPECT_EQ((*a)->statistics("b")->trouble, PeerTrouble::kOtherPlan);
    return;
  }
}

}  // namespace
}  // namespace ravnest::transport::tcp
