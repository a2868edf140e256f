// How endpoints close, and how calls that wait end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "ravnest/transport/testing/conformance.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace ravnest::transport
