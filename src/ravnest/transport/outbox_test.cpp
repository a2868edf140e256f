#include "ravnest/transport/outbox.h"

#include <gtest/gtest.h>

#include "ravnest/transport/inproc/network.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

// From a to b, whose queue has room for one message at a time.
class OutboxTest : public testing::Test {
 protected:
  Status send(std::uint64_t number) { return outbox_.send("b", numbered(number)); }

  std::vector<std::uint64_t> take(std::size_t count) {
    std::vector<std::uint64_t> numbers;
    while (numbers.size() < count) {
      const auto event = next_message(*b_);
      if (!event.ok()) break;
      numbers.push_back(number_of(std::get<wire::Message>(event->what)));
    }
    return numbers;
  }

  // Until nothing is kept, as the thread that receives does it.
  void flush_all() {
    while (!outbox_.has_room("b", Priority::kUrgent)) {
      const Code woken = a_->receive(patiently()).status().code();
      ASSERT_NE(woken, Code::kDeadline) << "nobody told that there is room";
      ASSERT_TRUE(outbox_.flush().ok());
    }
  }

  inproc::Network network_;
  std::unique_ptr<Endpoint> a_ = network_.open("a", {"b"}, {.queue_bytes = 1});
  std::unique_ptr<Endpoint> b_;
  Outbox outbox_{*a_, Channel::kTraining};
};

TEST_F(OutboxTest, WhatHasNoRoomIsKeptAndGoesInItsOrder) {
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(send(i).ok());
  EXPECT_FALSE(outbox_.has_room("b", Priority::kUrgent));
  EXPECT_TRUE(outbox_.has_room("b", Priority::kBulk));
  b_ = network_.open("b", {"a"}, {});
  flush_all();
  ASSERT_TRUE(send(20).ok());
  flush_all();
  const auto numbers = take(21);
  ASSERT_EQ(numbers.size(), 21U);
  for (std::uint64_t i = 0; i <= 20; ++i) EXPECT_EQ(numbers[i], i);
  EXPECT_EQ(outbox_.dropped(), 0U);
}

TEST_F(OutboxTest, WhatIsForAPeerThatHasLeftIsDroppedAndCounted) {
  b_ = network_.open("b", {"a"}, {});
  ASSERT_TRUE(next_state(*a_, "b", PeerState::kUp).ok());
  ASSERT_TRUE(b_->close(patiently()).ok());
  ASSERT_TRUE(next_state(*a_, "b", PeerState::kLeft).ok());
  EXPECT_TRUE(send(0).ok());
  EXPECT_EQ(outbox_.dropped(), 1U);
  EXPECT_TRUE(outbox_.has_room("b", Priority::kUrgent));
}

TEST_F(OutboxTest, AMessageForNobodyIsAFailure) {
  EXPECT_EQ(outbox_.send("nobody", numbered(1)).code(), Code::kNotFound);
}

TEST(PriorityOfAMessage, OthersWaitForGradientsAndNobodyForAveraging) {
  EXPECT_LT(priority_of(wire::Ready()), priority_of(wire::Backward()));
  EXPECT_LT(priority_of(wire::Backward()), priority_of(wire::Forward()));
  EXPECT_LT(priority_of(wire::Forward()), priority_of(wire::RingChunk()));
  EXPECT_EQ(priority_of(wire::Averaging()), Priority::kUrgent);
  EXPECT_EQ(priority_of(wire::Failed()), Priority::kUrgent);
}

}  // namespace
}  // namespace ravnest::transport
