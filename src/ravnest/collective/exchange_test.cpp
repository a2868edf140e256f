#include "ravnest/collective/exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ravnest/collective/testing/exchange.h"

namespace ravnest::collective {
namespace {

struct Shape {
  std::uint32_t members = 1;
  std::size_t elements = 0;
  std::size_t chunk_elements = 1;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (std::uint32_t members = 1; members <= 7; ++members) {
    for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{members} - 1, std::size_t{members},
                                       std::size_t{13}, std::size_t{101}, std::size_t{840}}) {
      for (const std::size_t chunk : {1, 3, 64, 1000}) all.push_back({members, elements, chunk});
    }
  }
  return all;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.members << " members, " << shape.elements << " elements in chunks of " << shape.chunk_elements;
}

template <class T>
class ExchangeOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ExchangeOf, Types);

TYPED_TEST(ExchangeOf, AllMembersEndAnAllReduceWithTheSum) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    AveragingGroup<TypeParam> averaging_group(Operation::kAllReduce, values, shape.chunk_elements);
    averaging_group.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(averaging_group.exchanges[i]->complete());
      ASSERT_EQ(averaging_group.held(i), sum_of(values));
      ASSERT_EQ(averaging_group.exchanges[i]->ignored(), 0U);
    }
  }
}

TYPED_TEST(ExchangeOf, EachMemberEndsAReduceScatterWithItsSegmentOfTheSum) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    AveragingGroup<TypeParam> averaging_group(Operation::kReduceScatter, values, shape.chunk_elements);
    averaging_group.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      std::vector<TypeParam> expected(shape.elements, TypeParam(12345));
      const Range own = segment_range(shape.elements, shape.members, i);
      const auto sum = sum_of(values);
      for (std::size_t j = own.first; j < own.end; ++j) expected[j] = sum[j];
      ASSERT_TRUE(averaging_group.exchanges[i]->complete());
      ASSERT_EQ(averaging_group.held(i), expected);
    }
  }
}

TYPED_TEST(ExchangeOf, AllMembersEndAnAllGatherWithEveryOwnersSegment) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    std::vector<TypeParam> expected(shape.elements);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      const Range own = segment_range(shape.elements, shape.members, i);
      for (std::size_t j = own.first; j < own.end; ++j) expected[j] = values[i][j];
    }
    AveragingGroup<TypeParam> averaging_group(Operation::kAllGather, values, shape.chunk_elements);
    averaging_group.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(averaging_group.exchanges[i]->complete());
      ASSERT_EQ(averaging_group.held(i), expected);
    }
  }
}

TYPED_TEST(ExchangeOf, AllMembersEndABroadcastWithTheRootsValues) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    const std::uint32_t root = static_cast<std::uint32_t>(++seed) % shape.members;
    AveragingGroup<TypeParam> averaging_group(
        Operation::kBroadcast, values, shape.chunk_elements,
        [&](std::uint32_t, ExchangeOptions& options) { options.ring.root = root; });
    averaging_group.run(seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(averaging_group.exchanges[i]->complete());
      ASSERT_EQ(averaging_group.held(i), values[root]);
    }
  }
}

TEST(Exchange, NoMemberSendsMoreThanItHasTo) {
  for (std::uint32_t members = 1; members <= 7; ++members) {
    for (const std::size_t elements : {840, 841, 5}) {
      const auto values = whole_numbers<float>(members, elements);
      AveragingGroup<float> all(Operation::kAllReduce, values, 16);
      AveragingGroup<float> half(Operation::kReduceScatter, values, 16);
      all.run();
      half.run();
      for (std::uint32_t i = 0; i < members && members > 1; ++i) {
        // All values twice, but for the segment that it owns and the one that the next member owns.
        const std::size_t own = segment_range(elements, members, i).size();
        const std::size_t next = segment_range(elements, members, (i + 1) % members).size();
        EXPECT_EQ(all.elements_sent[i], 2 * elements - own - next);
        if (elements == 840) {
          EXPECT_EQ(all.elements_sent[i], 2 * (members - 1) * elements / members);
        }
        EXPECT_EQ(half.elements_sent[i], elements - own);
      }
    }
  }
}

TEST(Exchange, ChunksThatComeTwiceAreIgnoredAndCounted) {
  const auto values = whole_numbers<float>(4, 101);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 8);
  averaging_group.run(3, 2);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(averaging_group.held(i), sum_of(values));
    EXPECT_EQ(averaging_group.exchanges[i]->ignored(), averaging_group.exchanges[i]->ring().expected());
  }
}

TEST(Exchange, ChunksOfAnotherExchangeAreIgnoredAndCounted) {
  const auto values = whole_numbers<float>(2, 10);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 8);
  averaging_group.start(0);
  const wire::RingChunk good = averaging_group.letters.at(0).chunk;
  int others = 0;
  for (const auto& change : std::vector<std::function<void(wire::RingChunk&)>>{
           [](auto& c) { --c.round; }, [](auto& c) { ++c.round; }, [](auto& c) { --c.attempt; },
           [](auto& c) { ++c.averaging_group; }, [](auto& c) { c.segment = 2; }, [](auto& c) { c.hop = 9; }}) {
    wire::RingChunk other = good;
    change(other);
    const auto answer = averaging_group.exchanges[1]->on_chunk(other);
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE(answer->has_value());
    EXPECT_EQ(averaging_group.exchanges[1]->ignored(), static_cast<std::uint64_t>(++others));
  }
  EXPECT_TRUE(averaging_group.exchanges[1]->on_chunk(good)->has_value());
}

TEST(Exchange, TheSumTakesThePlaceOfWhatCameUnlessSomebodyElseHoldsThat) {
  const auto values = whole_numbers<float>(3, 30);
  for (const bool held : {false, true}) {
    AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 8);
    averaging_group.start(0);
    wire::RingChunk chunk = std::move(averaging_group.letters.at(0).chunk);
    const std::vector<std::byte> before(chunk.tensor.data.bytes.begin(), chunk.tensor.data.bytes.end());
    const auto* const place = chunk.tensor.data.bytes.data();
    const Slice other_holder = held ? chunk.tensor.data : Slice();
    const auto answer = averaging_group.exchanges[1]->on_chunk(std::move(chunk));
    ASSERT_TRUE(answer.ok() && answer->has_value());
    EXPECT_EQ((*answer)->tensor.data.bytes.data() == place, !held);
    if (held) {
      EXPECT_TRUE(std::ranges::equal(other_holder.bytes, before));
    }
  }
}

TEST(Exchange, KnowsHowManyOfItsChunksAreUnderWay) {
  const auto values = whole_numbers<float>(3, 30);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 2);
  EXPECT_EQ(averaging_group.exchanges[0]->under_way(), 0U);
  for (std::uint32_t i = 0; i < 3; ++i) averaging_group.start(i);
  EXPECT_EQ(averaging_group.exchanges[0]->under_way(), 5U);  // of a third of all
  averaging_group.run();
  for (const auto& exchange : averaging_group.exchanges) EXPECT_EQ(exchange->under_way(), 0U);
}

TEST(Exchange, AChunkOfOtherValuesEndsTheExchange) {
  const auto values = whole_numbers<float>(2, 10);
  for (const auto& change : std::vector<std::function<void(wire::Tensor&)>>{
           [](auto& t) { t.shape = {4}, t.data = t.data.part(0, 16); }, [](auto& t) { t.dtype = DType::kInt32; },
           [](auto& t) { t.codec = codec::CodecKind::kFp16; }}) {
    AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 8);
    averaging_group.start(0);
    change(averaging_group.letters.at(0).chunk.tensor);
    const auto answer = averaging_group.exchanges[1]->on_chunk(averaging_group.letters.at(0).chunk);
    EXPECT_EQ(answer.status().code(), Code::kCorrupt) << answer.status();
  }
}

TEST(Exchange, ScaledContributionsMakeAWeightedMean) {
  const auto values = normal_numbers(3, 1000);
  const double weights[] = {0.5, 0.3, 0.2};
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 64,
                                        [&](std::uint32_t i, ExchangeOptions& options) { options.scale = weights[i]; });
  averaging_group.run();
  const auto mean = averaging_group.held(0);
  for (std::size_t j = 0; j < mean.size(); ++j) {
    const double expected = 0.5 * values[0][j] + 0.3 * values[1][j] + 0.2 * values[2][j];
    ASSERT_NEAR(mean[j], expected, 1e-6);
  }
}

TEST(Exchange, AllMembersEndWithTheSameBits) {
  // Numbers whose sum depends on the order of adding.
  const auto values = normal_numbers(5, 1009);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 64);
  averaging_group.run();
  for (std::uint32_t i = 1; i < 5; ++i) EXPECT_TRUE(same_bits(averaging_group.held(i), averaging_group.held(0)));
}

TEST(Exchange, WhatIsReceivedIsNeverModified) {
  const auto values = normal_numbers(3, 300);
  for (const char* codec : {"none", "int8"}) {
    AveragingGroup<float> averaging_group(
        Operation::kAllReduce, values, 16,
        [&](std::uint32_t, ExchangeOptions& options) { options.codec = *codec::parse_codec(codec); });
    for (std::uint32_t i = 0; i < 3; ++i) averaging_group.start(i);
    for (std::size_t i = 0; i < averaging_group.letters.size(); ++i) {
      const auto letter = averaging_group.letters[i];
      const std::vector<std::byte> before(letter.chunk.tensor.data.bytes.begin(), letter.chunk.tensor.data.bytes.end());
      averaging_group.deliver(letter);
      EXPECT_TRUE(std::ranges::equal(before, letter.chunk.tensor.data.bytes));
    }
  }
}

TEST(Exchange, ResultsMayTakeThePlaceOfTheContribution) {
  auto values = whole_numbers<float>(4, 101);
  const auto expected = sum_of(values);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ExchangeOptions options;
    options.ring = {.members = 4, .self = i, .chunk_elements = 8};
    averaging_group.exchanges[i] =
        std::make_unique<Exchange<float>>(options, values[i], averaging_group.pool, values[i]);
  }
  averaging_group.run(11);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(values[i], expected);
  }
}

TEST(Exchange, WhatBeginsHereCanBeTakenLittleByLittle) {
  const auto values = whole_numbers<float>(2, 20);
  AveragingGroup<float> averaging_group(Operation::kAllReduce, values, 3);
  Exchange<float>& exchange = *averaging_group.exchanges[0];
  std::size_t begun = 0;
  for (;;) {
    const auto messages = exchange.start(1);
    ASSERT_TRUE(messages.ok());
    if (messages->empty()) break;
    EXPECT_EQ(messages->at(0).chunk, begun++);
  }
  EXPECT_EQ(begun, 4U);
}

TEST(Exchange, WhatHasNoWeightDoesNotCountWhateverItIs) {
  const std::vector<std::vector<float>> values = {{1, 2, 3, 4}, std::vector<float>(4, std::nanf("")), {5, 6, 7, 8}};
  AveragingGroup<float> averaging_group(
      Operation::kAllReduce, values, 1,
      [](std::uint32_t self, ExchangeOptions& options) { options.scale = self == 1 ? 0 : 0.5; });
  averaging_group.run();
  for (std::uint32_t member = 0; member < 3; ++member)
    EXPECT_EQ(averaging_group.held(member), (std::vector<float>{3, 4, 5, 6})) << member;
}

}  // namespace
}  // namespace ravnest::collective
