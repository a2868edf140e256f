#include "ravnest/transport/testing/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class Conformance : public testing::TestWithParam<HarnessKind> {
 protected:
  std::unique_ptr<Harness> harness_ = GetParam().make();
  SessionOptions options_;

  std::unique_ptr<Endpoint> open(const std::string& name, std::vector<std::string> peers) {
    return harness_->open(name, std::move(peers), options_);
  }
};

TEST_P(Conformance, PeersFindEachOtherInEitherOrder) {
  auto a = open("a", {"b"});
  ASSERT_EQ(a->statistics("b")->state, PeerState::kWaiting);
  auto b = open("b", {"a"});
  EXPECT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  EXPECT_TRUE(next_state(*b, "a", PeerState::kUp).ok());
}

TEST_P(Conformance, AMessageSentBeforeThePeerExistsArrives) {
  auto a = open("a", {"b"});
  ASSERT_TRUE(a->send("b", numbered(7), Priority::kNormal).ok());
  auto b = open("b", {"a"});
  const auto event = next_message(*b);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->peer, "a");
  EXPECT_EQ(number_of(std::get<wire::Message>(event->what)), 7);
}

TEST_P(Conformance, MessagesArriveInOrderAndUnchanged) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  const std::vector<std::size_t> sizes = {0, 1, 63, 64, 65, 4096, 100'000, 1 << 20, (3 << 20) + 17};
  std::thread sender([&] {
    for (std::size_t i = 0; i < 200; ++i) {
      EXPECT_TRUE(a->send("b", filled(i, sizes[i % sizes.size()]), Priority::kNormal, {}, patiently()).ok());
    }
  });
  for (std::size_t i = 0; i < 200; ++i) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    const auto& message = std::get<wire::Message>(event->what);
    ASSERT_EQ(number_of(message), i);
    EXPECT_TRUE(is_intact(message));
  }
  sender.join();
}

TEST_P(Conformance, EveryAcceptedMessageCompletesOnce) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  constexpr int kCount = 500;
  std::atomic<int> completed = 0;
  std::promise<void> all;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(a->send("b", numbered(i), Priority::kHigh, [&](const Status& status) {
                   EXPECT_TRUE(status.ok()) << status;
                   if (++completed == kCount) all.set_value();
                 }).ok());
  }
  for (int i = 0; i < kCount; ++i) ASSERT_TRUE(next_message(*b).ok());
  ASSERT_EQ(all.get_future().wait_for(seconds(60)), std::future_status::ready);
  EXPECT_EQ(completed, kCount);
  EXPECT_EQ(a->statistics("b")->messages_sent, kCount);
  EXPECT_EQ(a->statistics("b")->queued_bytes, 0);
}

TEST_P(Conformance, ACompletionMaySendTheNextMessage) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  std::function<void(int)> send = [&](int number) {
    EXPECT_TRUE(a->send("b", numbered(number), Priority::kNormal, [&, number](const Status& status) {
                   if (status.ok() && number < 20) send(number + 1);
                 }).ok());
  };
  send(0);
  for (std::uint64_t i = 0; i <= 20; ++i) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(number_of(std::get<wire::Message>(event->what)), i);
  }
  EXPECT_TRUE(a->close(patiently()).ok());
}

TEST_P(Conformance, UrgentMessagesOvertakeLongOnes) {
  options_.window_bytes = std::uint64_t{1} << 40;
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  // Parted meanwhile, so that all are queued when the first is sent.
  harness_->set_parted("a", "b", true);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(a->send("b", filled(i, 4 << 20), Priority::kBulk).ok());
  ASSERT_TRUE(a->send("b", filled(100, 10), Priority::kUrgent).ok());
  harness_->set_parted("a", "b", false);
  bool urgent_came = false;
  std::uint64_t bulk = 0;
  for (int i = 0; i < 9; ++i) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    const std::uint64_t number = number_of(std::get<wire::Message>(event->what));
    if (number == 100) {
      urgent_came = true;
      EXPECT_LT(bulk, 4) << "the urgent message waited for long ones";
    } else {
      EXPECT_EQ(number, bulk++);
    }
  }
  EXPECT_TRUE(urgent_came);
}

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

TEST_P(Conformance, APeerThatTakesNothingBoundsMemory) {
  options_.window_bytes = 1 << 20;
  options_.queue_bytes = 1 << 20;
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  std::uint64_t accepted = 0;
  Status refused;
  while (refused.ok() && accepted < 1000) {
    refused = a->send("b", filled(accepted, 64 << 10), Priority::kNormal, {}, in_seconds(0.5));
    accepted += refused.ok() ? 1 : 0;
  }
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("the queue to b is full"));
  // One window on its way or there, one queue here, and a message beyond each.
  EXPECT_LE(accepted * (64 << 10), (2u << 20) + (128u << 10) + 512 * accepted);
  EXPECT_TRUE(next_state(*a, "b", PeerState::kSlow).ok());
  // Other priorities still get through.
  ASSERT_TRUE(a->send("b", filled(5000, 10), Priority::kUrgent).ok());
  std::uint64_t normal = 0;
  bool urgent = false;
  while (normal < accepted || !urgent) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    const std::uint64_t number = number_of(std::get<wire::Message>(event->what));
    if (number == 5000) {
      urgent = true;
    } else {
      ASSERT_EQ(number, normal++);
    }
  }
  EXPECT_TRUE(a->send("b", numbered(1), Priority::kNormal, {}, patiently()).ok());
  EXPECT_TRUE(next_message(*b).ok());
}

TEST_P(Conformance, AMessageLongerThanTheWindowGetsThrough) {
  options_.window_bytes = 100'000;
  options_.queue_bytes = 100'000;
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(a->send("b", filled(i, 5 << 20), Priority::kNormal, {}, patiently()).ok());
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_TRUE(is_intact(std::get<wire::Message>(event->what)));
  }
}

TEST_P(Conformance, AMessageBeyondTheLimitIsRefusedBeforeItIsSent) {
  options_.max_message_bytes = 1000;
  auto a = open("a", {"b"});
  const Status refused = a->send("b", filled(0, 2000), Priority::kNormal);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("is longer than the 1000 that can be sent at once"));
}

TEST_P(Conformance, AStrangersNameIsRefused) {
  auto a = open("a", {"b"});
  EXPECT_EQ(a->send("z", numbered(0), Priority::kNormal).code(), Code::kNotFound);
  EXPECT_EQ(a->statistics("z").status().code(), Code::kNotFound);
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

TEST_P(Conformance, ASilentPeerIsSlowThenLost) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  harness_->set_parted("a", "b", true);
  EXPECT_TRUE(next_state(*a, "b", PeerState::kSlow).ok());
  EXPECT_TRUE(next_state(*a, "b", PeerState::kLost).ok());
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

TEST_P(Conformance, ClosingDeliversWhatWasAcceptedAndSaysGoodbye) {
  auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(a->send("b", filled(i, 200'000), Priority::kNormal).ok());
  EXPECT_TRUE(a->close(patiently()).ok());
  EXPECT_EQ(a->send("b", numbered(1), Priority::kNormal).code(), Code::kCancelled);
  EXPECT_EQ(a->receive(patiently()).status().code(), Code::kCancelled);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto event = next_message(*b);
    ASSERT_TRUE(event.ok()) << event.status();
    ASSERT_EQ(number_of(std::get<wire::Message>(event->what)), i);
  }
  const auto left = next_state(*b, "a", PeerState::kLeft);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->reason, "a closed");
  EXPECT_EQ(b->send("a", numbered(1), Priority::kNormal).code(), Code::kUnavailable);
}

TEST_P(Conformance, ClosingWhileAPeerIsAwayEndsAtTheDeadlineAndSaysSo) {
  auto a = open("a", {"b"});
  std::promise<Status> outcome;
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal, [&](const Status& s) { outcome.set_value(s); }).ok());
  const Status closed = a->close(in_seconds(0.2));
  EXPECT_EQ(closed.code(), Code::kDeadline);
  EXPECT_THAT(closed.message(), HasSubstr("b (waiting)"));
  EXPECT_EQ(outcome.get_future().get().code(), Code::kCancelled);
}

TEST_P(Conformance, WaitingCallsEndWhenTheEndpointCloses) {
  auto a = open("a", {"b"});
  auto waiting = std::async(std::launch::async, [&] { return next_message(*a).status(); });
  (void)a->close(in_seconds(0));
  EXPECT_EQ(waiting.get().code(), Code::kCancelled);
}

TEST_P(Conformance, AnInterruptEndsOneReceive) {
  const auto a = open("a", {});
  a->interrupt();
  EXPECT_EQ(a->receive(patiently()).status().code(), Code::kUnavailable);
  EXPECT_EQ(a->receive(TimePoint()).status().code(), Code::kDeadline);
  auto waiting = std::async(std::launch::async, [&] { return a->receive(patiently()).status().code(); });
  a->interrupt();
  EXPECT_EQ(waiting.get(), Code::kUnavailable);
}

TEST_P(Conformance, WhatIsSaidOfAveragingIsReceivedApart) {
  const auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal).ok());
  ASSERT_TRUE(a->send("b", wire::Averaging{.round = 2}, Priority::kUrgent).ok());
  ASSERT_TRUE(a->send("b", wire::RingChunk{.round = 3, .tensor = {.shape = {0}, .data = {}}}, Priority::kBulk).ok());
  std::set<std::uint64_t> rounds;
  for (int i = 0; i < 2; ++i) {
    const auto event = next_message(*b, patiently(), Channel::kAveraging);
    ASSERT_TRUE(event.ok()) << event.status();
    const auto& message = std::get<wire::Message>(event->what);
    const auto* chunk = std::get_if<wire::RingChunk>(&message);
    rounds.insert(chunk != nullptr ? chunk->round : std::get<wire::Averaging>(message).round);
  }
  EXPECT_EQ(rounds, (std::set<std::uint64_t>{2, 3}));
  EXPECT_EQ(number_of(std::get<wire::Message>(next_message(*b).value().what)), 1);
  b->interrupt(Channel::kAveraging);
  EXPECT_EQ(b->receive(TimePoint()).status().code(), Code::kDeadline);
  EXPECT_EQ(b->receive(patiently(), Channel::kAveraging).status().code(), Code::kUnavailable);
  b.reset();
  EXPECT_TRUE(next_state(*a, "b", PeerState::kLost).ok());
  EXPECT_TRUE(next_state(*a, "b", PeerState::kLost, patiently(), Channel::kAveraging).ok());
}

TEST_P(Conformance, ThreePeersTalkAllToAll) {
  const std::vector<std::string> names = {"a", "b", "c"};
  std::map<std::string, std::unique_ptr<Endpoint>> endpoints;
  for (const std::string& name : names) {
    std::vector<std::string> peers;
    for (const std::string& other : names) {
      if (other != name) peers.push_back(other);
    }
    endpoints[name] = open(name, peers);
  }
  constexpr std::uint64_t kCount = 100;
  std::vector<std::thread> threads;
  for (const std::string& name : names) {
    threads.emplace_back([&, name] {
      for (std::uint64_t i = 0; i < kCount; ++i) {
        for (const std::string& other : names) {
          if (other != name) {
            EXPECT_TRUE(endpoints[name]->send(other, filled(i, 10'000), Priority::kNormal, {}, patiently()).ok());
          }
        }
      }
    });
    threads.emplace_back([&, name] {
      std::map<std::string, std::uint64_t> next;
      for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
        const auto event = next_message(*endpoints[name]);
        ASSERT_TRUE(event.ok()) << event.status();
        ASSERT_EQ(number_of(std::get<wire::Message>(event->what)), next[event->peer]++);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, testing::ValuesIn(all_harnesses()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace ravnest::transport
