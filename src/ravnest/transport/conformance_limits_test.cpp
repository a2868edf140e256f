// What may be sent, and how much of it may wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/transport/testing/conformance.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace ravnest::transport
