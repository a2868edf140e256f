// What becomes of messages when connections break, and of peers that are silent, gone or started anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "ravnest/transport/testing/conformance.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using testing::HasSubstr;

TEST_P(Conformance, NothingIsLostDoubledOrReorderedByBrokenConnections) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  constexpr std::uint64_t kCount = 300;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(a->send("b", filled(i, i * 1000), Priority::kNormal, {}, patiently()).ok());
      EXPECT_TRUE(b->send("a", filled(i, i * 100), Priority::kNormal, {}, patiently()).ok());
    }
  });
  std::thread other([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const auto event = next_message(*a);
      ASSERT_TRUE(event.ok()) << event.status();
      ASSERT_EQ(number_of(std::get<wire::Message>(event->what)), i);
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) {
    if (i % 20 == 10) harness_->cut("a", "b");
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    const auto& message = std::get<wire::Message>(event->what);
    ASSERT_EQ(number_of(message), i);
    EXPECT_TRUE(is_intact(message));
  }
  sender.join();
  other.join();
  EXPECT_GT(a->statistics("b")->connections, 1);
}

TEST_P(Conformance, AShortSilenceLosesNothing) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  harness_->set_parted("a", "b", true);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a->send("b", filled(i, 100'000), Priority::kNormal).ok());
  ASSERT_TRUE(next_state(*a, "b", PeerState::kSlow).ok());
  harness_->set_parted("a", "b", false);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(number_of(std::get<wire::Message>(event->what)), i);
  }
}

TEST_P(Conformance, ASilentPeerIsSlowThenLost) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  harness_->set_parted("a", "b", true);
  EXPECT_TRUE(next_state(*a, "b", PeerState::kSlow).ok());
  EXPECT_TRUE(next_state(*a, "b", PeerState::kLost).ok());
}

// After 3 s on a calm machine; one that stalled has made its peers patient.
TEST_P(Conformance, APeerThatDiedIsLostSoon) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  std::promise<Status> outcome;
  b.reset();
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal, [&](const Status& s) { outcome.set_value(s); }).ok());
  ASSERT_TRUE(next_state(*a, "b", PeerState::kLost).ok());
  EXPECT_EQ(outcome.get_future().get().code(), Code::kUnavailable);
  const Status refused = a->send("b", numbered(2), Priority::kNormal);
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("b is lost: could not be reached for"));
}

TEST_P(Conformance, ARestartedPeerIsReportedLostAndThenUp) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  harness_->set_parted("a", "b", true);
  std::promise<Status> outcome;
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal, [&](const Status& s) { outcome.set_value(s); }).ok());
  b.reset();
  b = open("b", {"a"});
  harness_->set_parted("a", "b", false);
  const auto lost = next_state(*a, "b", PeerState::kLost);
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_FALSE(lost->reason.empty());
  EXPECT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  EXPECT_EQ(outcome.get_future().get().code(), Code::kUnavailable);
  // The new one got nothing of the old one's, and both can talk.
  ASSERT_TRUE(a->send("b", numbered(2), Priority::kNormal, {}, patiently()).ok());
  const auto event = next_message(*b);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(number_of(std::get<wire::Message>(event->what)), 2);
}

TEST_P(Conformance, ASecondProcessOfALivePeerIsTurnedAwayAndTakesItsPlaceWhenItEnds) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  auto second = harness_->open_second("b", {"a"}, options_);
  ASSERT_TRUE(second->send("a", numbered(66), Priority::kUrgent).ok());
  const TimePoint deadline = patiently();
  while (!second->statistics("a")->reason.starts_with("another process is b") && SystemClock().now() < deadline) {
    (void)second->receive(in_seconds(0.05));
  }
  EXPECT_THAT(second->statistics("a")->reason,
              HasSubstr("another process is b and talks to a: each node may run only once"));
  // The first one has felt nothing of it.
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal).ok());
  ASSERT_TRUE(next_message(*b).ok());
  ASSERT_TRUE(b->send("a", numbered(2), Priority::kNormal).ok());
  const auto event = a->receive(patiently());
  ASSERT_TRUE(event.ok()) << event.status();
  ASSERT_TRUE(std::holds_alternative<wire::Message>(event->what)) << std::get<PeerChange>(event->what).reason;
  EXPECT_EQ(number_of(std::get<wire::Message>(event->what)), 2);
  EXPECT_EQ(a->statistics("b")->connections, 1);
  b.reset();
  EXPECT_TRUE(next_state(*a, "b", PeerState::kLost).ok());
  const auto late = next_message(*a);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(number_of(std::get<wire::Message>(late->what)), 66);
}

TEST_P(Conformance, RoundTripsAreMeasured) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  const TimePoint deadline = patiently();
  // The first may meet a busy moment.
  const auto is_measured = [](double trip_s) { return trip_s > 0 && trip_s < 1; };
  while (!is_measured(a->statistics("b")->round_trip_s) && SystemClock().now() < deadline) {
    (void)a->receive(in_seconds(0.05));
  }
  EXPECT_GT(a->statistics("b")->round_trip_s, 0);
  EXPECT_LT(a->statistics("b")->round_trip_s, 1);
}

}  // namespace
}  // namespace ravnest::transport
