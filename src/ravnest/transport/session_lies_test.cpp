// A session and a peer that lies: every lie is noticed, and nothing is delivered or acknowledged for it.
#include <gmock/gmock.h>

#include "ravnest/transport/testing/session.h"

namespace ravnest::transport {
namespace {

using testing::HasSubstr;

constexpr std::size_t kLane = 1;

class LyingPeer : public SessionTest {
 protected:
  LyingPeer()
      : SessionTest({.chunk_bytes = 100, .window_bytes = 3000, .queue_bytes = 50'000, .max_message_bytes = 10'000}) {
    wire::Hello hello;
    hello.session = 2;
    EXPECT_TRUE(session_.link(hello, now_).ok());
  }

  Code acknowledged(std::uint64_t message, std::uint64_t offset, std::uint64_t consumed) {
    return session_.acknowledged(kLane, {{message, offset, consumed}}).code();
  }
  Status chunk(std::uint64_t message, std::uint64_t message_size, std::uint64_t offset, std::size_t size) {
    const auto into = session_.receive_into(kLane, {message, message_size, offset}, size);
    if (!into.ok()) return into.status();
    EXPECT_EQ(into->size(), size);
    std::ranges::fill(*into, std::byte{0});
    return session_.chunk_received(kLane, size, now_);
  }

  Session session_ = make(1);
};

TEST_F(LyingPeer, AcknowledgesWhatWasNotSent) {
  ASSERT_TRUE(put(session_, kLane, filled(0, 1000), [](const Status&) {}).ok());
  EXPECT_EQ(acknowledged(1, 0, 0), Code::kCorrupt);  // nothing was sent
  EXPECT_EQ(acknowledged(0, 1, 0), Code::kCorrupt);
  (void)next_chunk(session_);
  EXPECT_EQ(acknowledged(0, 100, 0), Code::kOk);
  EXPECT_EQ(acknowledged(0, 101, 0), Code::kCorrupt);
  EXPECT_EQ(acknowledged(1, 0, 0), Code::kCorrupt);
  EXPECT_EQ(acknowledged(UINT64_MAX, 0, 0), Code::kCorrupt);
  EXPECT_EQ(acknowledged(0, UINT64_MAX, 0), Code::kCorrupt);
  EXPECT_TRUE(session_.take_finished().empty());
}

TEST_F(LyingPeer, TakesMoreThanArrivedOrGivesBack) {
  ASSERT_TRUE(put(session_, kLane, filled(0, 10)).ok());
  ASSERT_TRUE(put(session_, kLane, filled(1, 10)).ok());
  while (next_chunk(session_)) {
  }
  EXPECT_EQ(acknowledged(0, 0, 1), Code::kCorrupt);
  EXPECT_EQ(acknowledged(0, 0, UINT64_MAX), Code::kCorrupt);
  EXPECT_EQ(acknowledged(1, 0, 512), Code::kOk);
  EXPECT_EQ(acknowledged(1, 0, 511), Code::kCorrupt);
  EXPECT_EQ(acknowledged(0, 0, 512), Code::kCorrupt);
  EXPECT_EQ(acknowledged(1, 0, 2000), Code::kCorrupt);
}

TEST_F(LyingPeer, SaysInItsHelloWhatCanNotBe) {
  ASSERT_TRUE(put(session_, kLane, filled(0, 1000)).ok());
  for (const wire::LaneProgress progress : {wire::LaneProgress{2, 0, 0}, {0, 5000, 0}, {1, 1, 0}, {0, 0, 1}}) {
    wire::Hello hello;
    hello.session = 2;
    hello.peer_session = 1;
    hello.received[kLane] = progress;
    EXPECT_EQ(session_.link(hello, now_).code(), Code::kCorrupt);
  }
}

TEST_F(LyingPeer, SendsChunksOutOfOrder) {
  EXPECT_EQ(chunk(1, 500, 0, 100).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(0, 500, 100, 100).code(), Code::kCorrupt);
  ASSERT_TRUE(chunk(0, 500, 0, 100).ok());
  EXPECT_EQ(chunk(0, 500, 0, 100).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(0, 500, 200, 100).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(1, 500, 0, 100).code(), Code::kCorrupt);
  EXPECT_TRUE(chunk(0, 500, 100, 100).ok());
}

TEST_F(LyingPeer, SendsChunksThatDoNotFit) {
  EXPECT_EQ(chunk(0, 0, 0, 0).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(0, 50, 0, 51).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(0, 50, 0, 0).code(), Code::kCorrupt);
  EXPECT_EQ(chunk(0, UINT64_MAX, UINT64_MAX - 5, 100).code(), Code::kCorrupt);
  ASSERT_TRUE(chunk(0, 500, 0, 100).ok());
  EXPECT_EQ(chunk(0, 500, 100, 401).code(), Code::kCorrupt);
  EXPECT_THAT(chunk(0, 600, 100, 100).message(), HasSubstr("changes its length"));
}

TEST_F(LyingPeer, AnnouncesAMessageThatIsTooLong) {
  EXPECT_THAT(chunk(0, 10'001, 0, 100).message(), HasSubstr("longer than the 10000"));
  EXPECT_EQ(chunk(0, UINT64_MAX, 0, 100).code(), Code::kCorrupt);
}

#ifndef RAVNEST_SANITIZED
TEST_F(LyingPeer, AnnouncesAMessageThatNoMemoryHolds) {
  options_.max_message_bytes = std::uint64_t{1} << 62;
  Session session = make(5);
  // What is only announced costs nothing.
  EXPECT_TRUE(session.receive_into(kLane, {0, std::uint64_t{1} << 61, 0}, 100).ok());
  const auto into = session.receive_into(kLane, {0, std::uint64_t{1} << 61, 0}, std::uint64_t{1} << 60);
  EXPECT_EQ(into.status().code(), Code::kUnavailable);
  EXPECT_THAT(into.status().message(), HasSubstr("there is no memory"));
}
#endif

TEST_F(LyingPeer, SendsMoreThanTheWindow) {
  const auto encoded = wire::encode(numbered(1));
  std::uint64_t sent = 0;
  Status refused;
  while (refused.ok() && sent < 100) {
    const wire::Chunk whole{sent, encoded->size, 0};
    refused = session_.message_received(kLane, whole, numbered(1), now_);
    sent += refused.ok() ? 1 : 0;
  }
  EXPECT_THAT(refused.message(), HasSubstr("more than it may"));
  EXPECT_EQ(sent, (3000 + encoded->size + 511) / (encoded->size + 512));
  EXPECT_EQ(session_.take_arrived().size(), sent);
}

TEST_F(LyingPeer, SendsWhatIsNoMessage) {
  EXPECT_EQ(chunk(0, 200, 0, 200).code(), Code::kCorrupt);
  EXPECT_TRUE(session_.take_arrived().empty());
}

}  // namespace
}  // namespace ravnest::transport
