// For tests of the session: two of them, and what carries frames from one to the other.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/transport/session.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {

inline Status put(Session& session, std::size_t lane, wire::Message message, Completion done = {}) {
  auto encoded = wire::encode(message);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return session.enqueue(lane, std::move(message), std::move(encoded).value(), std::move(done));
}

// Hands one frame over, as bytes.
inline Status hand_over(const Frame& frame, Session& to, TimePoint now) {
  if (const auto* chunk = std::get_if<ChunkFrame>(&frame)) {
    std::vector<std::byte> bytes;
    for (const Slice& slice : chunk->data) bytes.insert(bytes.end(), slice.bytes.begin(), slice.bytes.end());
    const auto into = to.receive_into(chunk->lane, chunk->chunk, bytes.size());
    if (!into.ok()) return into.status();
    std::ranges::copy(bytes, into->begin());
    return to.chunk_received(chunk->lane, bytes.size(), now);
  }
  if (const auto* acknowledge = std::get_if<AcknowledgeFrame>(&frame)) {
    return to.acknowledged(acknowledge->lane, acknowledge->acknowledge);
  }
  to.beat(std::get<wire::Heartbeat>(frame), now);
  return {};
}

inline wire::Hello hello_of(const Session& session) {
  wire::Hello hello;
  session.describe(hello);
  return hello;
}

// Two sessions, their time, and the connection between them.
class SessionTest : public testing::Test {
 protected:
  explicit SessionTest(SessionOptions options = {}) : options_(options) {}

  Session make(std::uint64_t id) { return Session(options_, id, pool_, now_); }
  // A new connection: each gets the other's hello.
  void connect(Session& a, Session& b) {
    const wire::Hello from_a = hello_of(a);
    const wire::Hello from_b = hello_of(b);
    ASSERT_TRUE(a.continues(from_b));
    ASSERT_TRUE(b.continues(from_a));
    ASSERT_TRUE(a.link(from_b, now_).ok());
    ASSERT_TRUE(b.link(from_a, now_).ok());
  }
  void disconnect(Session& a, Session& b) {
    a.unlink(now_);
    b.unlink(now_);
  }
  // Lets both say all that they have to say, for a while.
  void exchange(Session& a, Session& b, Duration time = std::chrono::milliseconds(20)) {
    for (const TimePoint end = now_ + time; now_ <= end; now_ += std::chrono::milliseconds(1)) {
      bool said = true;
      while (said) {
        said = false;
        for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
          while (auto frame = from->next_frame(now_)) {
            said = true;
            ASSERT_TRUE(hand_over(*frame, *to, now_).ok());
          }
        }
      }
    }
  }
  // The next chunk of the session, past whatever else it wants to say.
  std::optional<ChunkFrame> next_chunk(Session& session) {
    while (auto frame = session.next_frame(now_)) {
      if (auto* chunk = std::get_if<ChunkFrame>(&*frame)) return *chunk;
    }
    return std::nullopt;
  }
  std::vector<std::uint64_t> arrived(Session& session) {
    std::vector<std::uint64_t> numbers;
    for (const Arrived& each : session.take_arrived()) numbers.push_back(number_of(each.message));
    return numbers;
  }

  SessionOptions options_;
  BufferPool pool_{1 << 20};
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace ravnest::transport
