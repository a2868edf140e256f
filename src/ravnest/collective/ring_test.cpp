#include "ravnest/collective/ring.h"

#include <gtest/gtest.h>

namespace ravnest::collective {
namespace {

RingOptions three_members(Operation operation, std::uint32_t self) {
  return {.operation = operation, .members = 3, .self = self, .elements = 9, .chunk_elements = 2};
}

TEST(Ring, SegmentsAreCutWithoutGapsAndDifferByOneElementAtMost) {
  for (const std::size_t elements : {0, 1, 4, 5, 6, 7, 101}) {
    std::size_t end = 0;
    for (std::uint32_t segment = 0; segment < 5; ++segment) {
      const Range range = segment_range(elements, 5, segment);
      EXPECT_EQ(range.first, end);
      EXPECT_GE(range.size(), elements / 5);
      EXPECT_LE(range.size(), elements / 5 + 1);
      end = range.end;
    }
    EXPECT_EQ(end, elements);
  }
}

TEST(Ring, AChunkBeginsAfterItsOwnerAndIsCompleteThere) {
  Ring first(three_members(Operation::kAllReduce, 1));
  const auto begun = first.start();
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[0], (RingStep{.segment = 0, .chunk = 0, .range = {0, 2}, .add = false, .keep = false, .hop = 1}));
  EXPECT_EQ(begun[1], (RingStep{.segment = 0, .chunk = 1, .range = {2, 3}, .add = false, .keep = false, .hop = 1}));

  Ring second(three_members(Operation::kAllReduce, 2));
  EXPECT_EQ(*second.on_chunk(0, 1, 1),
            (RingStep{.segment = 0, .chunk = 1, .range = {2, 3}, .add = true, .keep = false, .hop = 2}));
  Ring owner(three_members(Operation::kAllReduce, 0));
  EXPECT_EQ(*owner.on_chunk(0, 1, 2),
            (RingStep{.segment = 0, .chunk = 1, .range = {2, 3}, .add = true, .keep = true, .hop = 3}));
  EXPECT_EQ(*first.on_chunk(0, 1, 3),
            (RingStep{.segment = 0, .chunk = 1, .range = {2, 3}, .add = false, .keep = true, .hop = 4}));
  EXPECT_EQ(*second.on_chunk(0, 1, 4),
            (RingStep{.segment = 0, .chunk = 1, .range = {2, 3}, .add = false, .keep = true, .hop = 0}));
}

TEST(Ring, AReduceScatterEndsWithTheOwner) {
  Ring owner(three_members(Operation::kReduceScatter, 0));
  EXPECT_EQ(*owner.on_chunk(0, 0, 2),
            (RingStep{.segment = 0, .chunk = 0, .range = {0, 2}, .add = true, .keep = true, .hop = 0}));
  EXPECT_FALSE(owner.on_chunk(1, 0, 3).ok());
}

TEST(Ring, AnAllGatherBeginsWithTheOwner) {
  Ring owner(three_members(Operation::kAllGather, 0));
  EXPECT_EQ(owner.start().at(0),
            (RingStep{.segment = 0, .chunk = 0, .range = {0, 2}, .add = false, .keep = true, .hop = 1}));
  Ring last(three_members(Operation::kAllGather, 2));
  EXPECT_EQ(*last.on_chunk(0, 0, 2),
            (RingStep{.segment = 0, .chunk = 0, .range = {0, 2}, .add = false, .keep = true, .hop = 0}));
}

TEST(Ring, ABroadcastGoesFromItsRootToTheMemberBeforeIt) {
  RingOptions options = three_members(Operation::kBroadcast, 2);
  options.root = 2;
  EXPECT_EQ(Ring(options).start().size(), 5U);
  options.self = 1;
  Ring last(options);
  EXPECT_TRUE(last.start().empty());
  for (std::uint32_t chunk = 0; chunk < 5; ++chunk) {
    EXPECT_FALSE(last.complete());
    const auto step = last.on_chunk(0, chunk, 2);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->hop, 0U);
    EXPECT_TRUE(step->keep);
  }
  EXPECT_TRUE(last.complete());
}

TEST(Ring, WhatCanNotComeOrHasComeIsRefusedAndChangesNothing) {
  Ring ring(three_members(Operation::kAllReduce, 2));
  ASSERT_TRUE(ring.on_chunk(0, 0, 1).ok());
  const auto refuse = [&](std::uint32_t segment, std::uint32_t chunk, std::uint32_t hop, const char* why) {
    const auto step = ring.on_chunk(segment, chunk, hop);
    EXPECT_EQ(step.status().code(), Code::kInvalid);
    EXPECT_NE(step.status().message().find(why), std::string::npos) << step.status();
  };
  refuse(0, 0, 1, "has come with hop 1 before");
  refuse(3, 0, 1, "there is no chunk 0 of segment 3");
  refuse(0, 2, 1, "there is no chunk 2 of segment 0");
  refuse(0, 1, 0, "can not come here with hop 0");
  refuse(0, 1, 2, "can not come here with hop 2");
  refuse(0, 1, 7, "can not come here with hop 7");
  refuse(0, 1, 4, "is complete before it passed here");
  EXPECT_EQ(ring.received(), 1U);
  EXPECT_TRUE(ring.on_chunk(0, 1, 1).ok());
  EXPECT_TRUE(ring.on_chunk(0, 0, 4).ok());
  refuse(0, 0, 4, "has come with hop 4 before");
}

TEST(Ring, AMemberAloneIsCompleteAtOnce) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kReduceScatter, Operation::kAllGather, Operation::kBroadcast}) {
    Ring ring({.operation = operation, .members = 1, .elements = 3, .chunk_elements = 2});
    const auto steps = ring.start();
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_TRUE(steps[0].keep && steps[0].hop == 0);
    EXPECT_TRUE(ring.complete());
  }
}

}  // namespace
}  // namespace ravnest::collective
