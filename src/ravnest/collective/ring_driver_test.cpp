#include "ravnest/collective/ring_driver.h"

#include <gtest/gtest.h>

#include "ravnest/collective/testing/exchange.h"
#include "ravnest/collective/testing/group.h"

namespace ravnest::collective {
namespace {

using transport::Channel;
using transport::patiently;

constexpr std::size_t kFewElements = 1024;  // of a chunk

// One member's driver over an endpoint, driven as its header says.
struct Member {
  Member(transport::Endpoint& own, const std::vector<std::string>& names, std::size_t index)
      : endpoint(own),
        outbox(own, Channel::kAveraging),
        previous(names[(index + names.size() - 1) % names.size()]),
        next(names[(index + 1) % names.size()]),
        count(static_cast<std::uint32_t>(names.size())),
        self(static_cast<std::uint32_t>(index)) {}

  void add(std::uint32_t vector, std::vector<float>& values, std::size_t chunk_elements = kFewElements) {
    ExchangeOptions options;
    options.ring = {.members = count, .self = self, .chunk_elements = chunk_elements};
    options.vector = vector;
    driver.add(options, values, previous, next);
  }

  Status run() {
    for (;;) {
      if (Status flushed = outbox.flush(); !flushed.ok()) return flushed;
      // The last messages may be kept for want of room when all has come.
      if (driver.complete() && outbox.has_room(next, transport::Priority::kBulk)) return {};
      const bool may_begin = driver.may_begin();
      auto event = endpoint.receive(may_begin ? TimePoint() : patiently(), Channel::kAveraging);
      if (event.ok()) {
        if (auto* message = std::get_if<wire::Message>(&event->what)) {
          Status taken = driver.on_chunk(event->peer, std::get<wire::RingChunk>(std::move(*message)));
          if (!taken.ok()) return taken;
        }
      } else if (event.status().code() == Code::kDeadline && may_begin) {
        if (Status begun = driver.begin(); !begun.ok()) return begun;
      } else if (event.status().code() != Code::kUnavailable) {
        return event.status();
      }
    }
  }

  transport::Endpoint& endpoint;
  transport::Outbox outbox;
  transport::BufferPool pool{1 << 20};
  const std::string previous;
  const std::string next;
  const std::uint32_t count;
  const std::uint32_t self;
  RingDriver<float> driver{endpoint, outbox, pool};
};

std::size_t begin_all(Member& member) {
  std::size_t begun = 0;
  for (; member.driver.may_begin(); ++begun) EXPECT_TRUE(member.driver.begin().ok());
  return begun;
}

TEST(RingDriver, AMemberThatGetsNothingBeginsNoMoreThanACacheHolds) {
  InprocNodes nodes(2);
  const auto endpoint = nodes.open(0, {});
  Member member(*endpoint, nodes.names, 0);
  std::vector<float> values(100 * kChunkBytes / sizeof(float));
  member.add(0, values, kChunkBytes / sizeof(float));
  const std::size_t begun = begin_all(member);
  EXPECT_GE(begun, 2U);
  EXPECT_LE(begun * kChunkBytes, std::size_t{1} << 20);
  EXPECT_EQ(member.driver.bytes_sent(), begun * kChunkBytes);
}

TEST(RingDriver, OperationsShareWhatIsUnderWayButEachHasAFewChunks) {
  InprocNodes nodes(2);
  const auto endpoint = nodes.open(0, {});
  Member member(*endpoint, nodes.names, 0);
  std::vector<std::vector<float>> values(30, std::vector<float>(20 * kChunkBytes / sizeof(float)));
  for (std::uint32_t vector = 0; vector < values.size(); ++vector)
    member.add(vector, values[vector], kChunkBytes / sizeof(float));
  EXPECT_EQ(begin_all(member), 2 * values.size());
}

TEST(RingDriver, WhatHasNoRoomIsNotBegun) {
  InprocNodes nodes(2);
  const auto endpoint = nodes.open(0, {.queue_bytes = 1});
  Member member(*endpoint, nodes.names, 0);
  std::vector<float> values(100 * kFewElements);
  member.add(0, values);
  EXPECT_EQ(begin_all(member), 2U);  // one is sent, and one kept
}

// Each is busy with another operation first: with one bound for all of them, and nothing of their own, they would wait
// for each other.
TEST(RingDriver, MembersThatBeginWithDifferentOperationsDoNotWaitForEachOther) {
  constexpr std::size_t kMembers = 3;
  constexpr std::uint32_t kVectors = 6;
  InprocNodes nodes(kMembers);
  const auto endpoints = nodes.open_all();
  std::vector<std::vector<std::vector<float>>> given;
  for (std::uint32_t vector = 0; vector < kVectors; ++vector)
    given.push_back(whole_numbers<float>(kMembers, 700'000 + vector, vector));
  at_once(kMembers, [&](std::size_t i) {
    Member member(*endpoints[i], nodes.names, i);
    std::vector<std::vector<float>> values(kVectors);
    for (std::uint32_t s = 0; s < kVectors; ++s) {
      const auto vector = static_cast<std::uint32_t>((s + 2 * i) % kVectors);
      values[vector] = given[vector][i];
      member.add(vector, values[vector], kChunkBytes / sizeof(float));
    }
    const Status done = member.run();
    ASSERT_TRUE(done.ok()) << done;
    for (std::uint32_t vector = 0; vector < kVectors; ++vector) ASSERT_EQ(values[vector], sum_of(given[vector]));
    EXPECT_EQ(member.driver.ignored(), 0U);
  });
}

TEST(RingDriver, WhatIsNotFromTheMemberBeforeIsIgnoredAndCounted) {
  InprocNodes nodes(3);
  const auto endpoint = nodes.open(0, {});
  Member member(*endpoint, nodes.names, 0);
  std::vector<float> values(6);
  member.add(4, values);
  wire::RingChunk chunk;
  chunk.vector = 4;
  EXPECT_TRUE(member.driver.on_chunk("b", chunk).ok());  // the next one
  chunk.vector = 5;
  EXPECT_TRUE(member.driver.on_chunk("c", chunk).ok());
  EXPECT_EQ(member.driver.ignored(), 2U);
  EXPECT_EQ(member.driver.received(), 0U);
}

}  // namespace
}  // namespace ravnest::collective
