#include "ravnest/transport/switchboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using std::chrono::milliseconds;

// The board of node a, with peers b and c, and a carrier that is the test.
class SwitchboardTest : public testing::Test {
 protected:
  wire::Hello hello_of_b(std::uint64_t session) {
    wire::Hello hello;
    hello.session = session;
    return hello;
  }
  std::uint64_t own_session(const std::string& peer = "b") {
    wire::Hello hello;
    board_.describe(peer, hello);
    return hello.session;
  }
  // Time passes, and the carrier looks as it should.
  void pass(Duration time) {
    for (const TimePoint end = clock_.now() + time; clock_.now() < end; clock_.advance(milliseconds(100))) {
      (void)board_.look();
    }
  }
  std::vector<PeerState> states() {
    std::vector<PeerState> seen;
    for (;;) {
      const auto event = board_.receive(clock_.now());
      if (!event.ok()) return seen;
      if (const auto* change = std::get_if<PeerChange>(&event->what)) seen.push_back(change->state);
    }
  }

  ManualClock clock_{TimePoint(std::chrono::hours(1))};
  std::uint64_t sessions_ = 0;
  Switchboard board_{
      {"a", {"b", "c"}, {}, [this] { return ++sessions_; }}, clock_, [](const std::string&, std::uint64_t) {}};
};

TEST_F(SwitchboardTest, ASessionGivenUpWhileItsHelloWasUnderWayIsNotGoneOnWith) {
  ASSERT_TRUE(board_.linked("b", hello_of_b(7), own_session()).ok());
  board_.unlinked("b", "cut");
  const std::uint64_t said = own_session();  // on a connection whose answer takes long
  pass(std::chrono::seconds(30));
  ASSERT_EQ(board_.statistics("b")->state, PeerState::kLost);
  EXPECT_EQ(board_.linked("b", hello_of_b(7), said).code(), Code::kUnavailable);
  EXPECT_EQ(board_.statistics("b")->state, PeerState::kLost);
  EXPECT_TRUE(board_.linked("b", hello_of_b(7), own_session()).ok());
  EXPECT_EQ(board_.statistics("b")->state, PeerState::kUp);
}

TEST_F(SwitchboardTest, ASecondProcessOfAPeerIsNotAdmittedWhileTheFirstIsAlive) {
  ASSERT_TRUE(board_.linked("b", hello_of_b(7), own_session()).ok());
  EXPECT_EQ(board_.admits("b", hello_of_b(8)).code(), Code::kUnavailable);
  EXPECT_EQ(board_.linked("b", hello_of_b(8), own_session()).code(), Code::kUnavailable);
  EXPECT_TRUE(board_.is_linked("b"));
  EXPECT_TRUE(board_.admits("b", hello_of_b(7)).ok());  // the same one, on a new connection
  EXPECT_EQ(states(), std::vector{PeerState::kUp});
}

TEST_F(SwitchboardTest, AProcessThatWasStartedAnewIsAdmittedOnceTheOldOneIsClosed) {
  ASSERT_TRUE(board_.linked("b", hello_of_b(7), own_session()).ok());
  board_.unlinked("b", "it closed the connection");
  ASSERT_TRUE(board_.linked("b", hello_of_b(8), own_session()).ok());
  EXPECT_EQ(states(), (std::vector{PeerState::kLost, PeerState::kUp}));
}

TEST_F(SwitchboardTest, AProcessThatWasStartedAnewIsAdmittedOnceTheOldOneIsTooSilent) {
  ASSERT_TRUE(board_.linked("b", hello_of_b(7), own_session()).ok());
  std::vector<std::string> silent;
  Duration waited{};
  while (silent.empty() && waited < std::chrono::seconds(60)) {
    EXPECT_FALSE(board_.admits("b", hello_of_b(8)).ok());
    clock_.advance(milliseconds(100));
    waited += milliseconds(100);
    silent = board_.look();
  }
  EXPECT_EQ(silent, std::vector<std::string>{"b"});
  EXPECT_LE(waited, milliseconds(3200));
  board_.unlinked("b", "the connection was silent for too long");
  EXPECT_TRUE(board_.linked("b", hello_of_b(8), own_session()).ok());
}

TEST_F(SwitchboardTest, PeersThatComeAndGoDoNotFillTheQueueOfOneWhoDoesNotRead) {
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    for (const std::string peer : {"b", "c"}) {
      ASSERT_TRUE(board_.linked(peer, hello_of_b(i), own_session(peer)).ok());
      board_.unlinked(peer, "cut");
    }
  }
  // Of each peer that it was lost, and how it is now.
  EXPECT_EQ(states(), (std::vector{PeerState::kLost, PeerState::kDown, PeerState::kLost, PeerState::kDown}));
}

TEST_F(SwitchboardTest, WhatIsNotTakenIsBoundedOverAllPeersLanesAndSessions) {
  constexpr std::uint64_t kMost = 1 << 20;
  Switchboard board({"a", {"b", "c"}, {.max_unread_bytes = kMost}, [this] { return ++sessions_; }}, clock_,
                    [](const std::string&, std::uint64_t) {});
  const auto own_session_of = [&](const std::string& peer) {
    wire::Hello hello;
    board.describe(peer, hello);
    return hello.session;
  };
  // Begins of messages, and whole ones that nobody takes, by sessions that come and go.
  constexpr std::size_t kPart = 100'000;
  std::uint64_t given = 0;
  Status refused;
  for (std::uint64_t session = 1; refused.ok() && session < 100; ++session) {
    for (const std::string peer : {"b", "c"}) {
      board.unlinked(peer, "cut");
      ASSERT_TRUE(board.linked(peer, hello_of_b(session), own_session_of(peer)).ok());
      const auto encoded = wire::encode(filled(0, kPart));
      refused = board.message_received(peer, 2, {0, encoded->size, 0}, filled(0, kPart));
      given += refused.ok() ? kPart : 0;
      const auto into = board.receive_into(peer, 3, {0, 5 * kPart, 0}, kPart);
      if (into.ok()) {
        ASSERT_TRUE(board.chunk_received(peer, 3, kPart).ok());
      }
      refused = into.status();
    }
  }
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused;
  EXPECT_THAT(refused.message(), testing::HasSubstr("takes no more than 1048576"));
  EXPECT_LE(given, kMost);
  // Once they are taken there is room again.
  while (board.receive(clock_.now()).ok()) {
  }
  EXPECT_TRUE(board.receive_into("b", 1, {0, 5 * kPart, 0}, kPart).ok());
}

TEST_F(SwitchboardTest, ALossIsSeenBehindTheMessagesBeforeIt) {
  ASSERT_TRUE(board_.linked("b", hello_of_b(1), own_session()).ok());
  const auto encoded = wire::encode(numbered(1));
  ASSERT_TRUE(board_.message_received("b", 2, {0, encoded->size, 0}, numbered(1)).ok());
  board_.unlinked("b", "cut");
  ASSERT_TRUE(board_.linked("b", hello_of_b(2), own_session()).ok());
  ASSERT_TRUE(board_.message_received("b", 2, {0, encoded->size, 0}, numbered(2)).ok());
  std::vector<std::string> seen;
  for (;;) {
    const auto event = board_.receive(clock_.now());
    if (!event.ok()) break;
    const auto* change = std::get_if<PeerChange>(&event->what);
    seen.emplace_back(change != nullptr ? std::string(name(change->state))
                                        : std::to_string(number_of(std::get<wire::Message>(event->what))));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"up", "1", "lost", "up", "2"}));
}

}  // namespace
}  // namespace ravnest::transport
