// That messages arrive: whole, once, in order, the urgent ones first.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/transport/testing/conformance.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using std::chrono::seconds;

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

TEST_P(Conformance, WhatIsSaidOfAveragingIsReceivedApart) {
  const auto a = open("a", {"b"});
  auto b = open("b", {"a"});
  ASSERT_TRUE(a->send("b", numbered(1), Priority::kNormal).ok());
  ASSERT_TRUE(a->send("b", wire::Averaging(wire::CallRound{2}), Priority::kUrgent).ok());
  ASSERT_TRUE(a->send("b", wire::RingChunk{.round = 3, .tensor = {.shape = {0}, .data = {}}}, Priority::kBulk).ok());
  std::set<std::uint64_t> rounds;
  for (int i = 0; i < 2; ++i) {
    const auto event = next_message(*b, patiently(), Channel::kAveraging);
    ASSERT_TRUE(event.ok()) << event.status();
    const auto& message = std::get<wire::Message>(event->what);
    const auto* chunk = std::get_if<wire::RingChunk>(&message);
    rounds.insert(chunk != nullptr ? chunk->round
                                   : std::get<wire::CallRound>(std::get<wire::Averaging>(message)).round);
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

}  // namespace
}  // namespace ravnest::transport
