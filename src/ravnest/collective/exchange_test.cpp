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
    RingOfExchanges<TypeParam> ring(Operation::kAllReduce, values, shape.chunk_elements);
    ring.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(ring.exchanges[i]->complete());
      ASSERT_EQ(ring.held(i), sum_of(values));
      ASSERT_EQ(ring.exchanges[i]->ignored(), 0U);
    }
  }
}

TYPED_TEST(ExchangeOf, EachMemberEndsAReduceScatterWithItsSegmentOfTheSum) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    RingOfExchanges<TypeParam> ring(Operation::kReduceScatter, values, shape.chunk_elements);
    ring.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      std::vector<TypeParam> expected(shape.elements, TypeParam(12345));
      const Range own = segment_range(shape.elements, shape.members, i);
      const auto sum = sum_of(values);
      for (std::size_t j = own.first; j < own.end; ++j) expected[j] = sum[j];
      ASSERT_TRUE(ring.exchanges[i]->complete());
      ASSERT_EQ(ring.held(i), expected);
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
    RingOfExchanges<TypeParam> ring(Operation::kAllGather, values, shape.chunk_elements);
    ring.run(++seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(ring.exchanges[i]->complete());
      ASSERT_EQ(ring.held(i), expected);
    }
  }
}

TYPED_TEST(ExchangeOf, AllMembersEndABroadcastWithTheRootsValues) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const auto values = whole_numbers<TypeParam>(shape.members, shape.elements);
    const std::uint32_t root = static_cast<std::uint32_t>(++seed) % shape.members;
    RingOfExchanges<TypeParam> ring(Operation::kBroadcast, values, shape.chunk_elements,
                                    [&](std::uint32_t, ExchangeOptions& options) { options.ring.root = root; });
    ring.run(seed);
    for (std::uint32_t i = 0; i < shape.members; ++i) {
      ASSERT_TRUE(ring.exchanges[i]->complete());
      ASSERT_EQ(ring.held(i), values[root]);
    }
  }
}

TEST(Exchange, NoMemberSendsMoreThanItHasTo) {
  for (std::uint32_t members = 1; members <= 7; ++members) {
    for (const std::size_t elements : {840, 841, 5}) {
      const auto values = whole_numbers<float>(members, elements);
      RingOfExchanges<float> all(Operation::kAllReduce, values, 16);
      RingOfExchanges<float> half(Operation::kReduceScatter, values, 16);
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
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 8);
  ring.run(3, 2);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ring.held(i), sum_of(values));
    EXPECT_EQ(ring.exchanges[i]->ignored(), ring.exchanges[i]->ring().expected());
  }
}

TEST(Exchange, ChunksOfAnotherExchangeAreIgnoredAndCounted) {
  const auto values = whole_numbers<float>(2, 10);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 8);
  ring.start(0);
  const wire::RingChunk good = ring.letters.at(0).chunk;
  int others = 0;
  for (const auto& change : std::vector<std::function<void(wire::RingChunk&)>>{
           [](auto& c) { --c.round; }, [](auto& c) { ++c.round; }, [](auto& c) { --c.attempt; },
           [](auto& c) { ++c.vector; }, [](auto& c) { c.segment = 2; }, [](auto& c) { c.hop = 9; }}) {
    wire::RingChunk other = good;
    change(other);
    const auto answer = ring.exchanges[1]->on_chunk(other);
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE(answer->has_value());
    EXPECT_EQ(ring.exchanges[1]->ignored(), static_cast<std::uint64_t>(++others));
  }
  EXPECT_TRUE(ring.exchanges[1]->on_chunk(good)->has_value());
}

TEST(Exchange, TheSumTakesThePlaceOfWhatCameUnlessSomebodyElseHoldsThat) {
  const auto values = whole_numbers<float>(3, 30);
  for (const bool held : {false, true}) {
    RingOfExchanges<float> ring(Operation::kAllReduce, values, 8);
    ring.start(0);
    wire::RingChunk chunk = std::move(ring.letters.at(0).chunk);
    const std::vector<std::byte> before(chunk.tensor.data.bytes.begin(), chunk.tensor.data.bytes.end());
    const auto* const place = chunk.tensor.data.bytes.data();
    const Slice other_holder = held ? chunk.tensor.data : Slice();
    const auto answer = ring.exchanges[1]->on_chunk(std::move(chunk));
    ASSERT_TRUE(answer.ok() && answer->has_value());
    EXPECT_EQ((*answer)->tensor.data.bytes.data() == place, !held);
    if (held) {
      EXPECT_TRUE(std::ranges::equal(other_holder.bytes, before));
    }
  }
}

TEST(Exchange, KnowsHowManyOfItsChunksAreUnderWay) {
  const auto values = whole_numbers<float>(3, 30);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 2);
  EXPECT_EQ(ring.exchanges[0]->under_way(), 0U);
  for (std::uint32_t i = 0; i < 3; ++i) ring.start(i);
  EXPECT_EQ(ring.exchanges[0]->under_way(), 5U);  // of a third of all
  ring.run();
  for (const auto& exchange : ring.exchanges) EXPECT_EQ(exchange->under_way(), 0U);
}

TEST(Exchange, AChunkOfOtherValuesEndsTheExchange) {
  const auto values = whole_numbers<float>(2, 10);
  for (const auto& change : std::vector<std::function<void(wire::Tensor&)>>{
           [](auto& t) { t.shape = {4}, t.data = t.data.part(0, 16); }, [](auto& t) { t.dtype = DType::kInt32; },
           [](auto& t) { t.codec = codec::CodecKind::kFp16; }}) {
    RingOfExchanges<float> ring(Operation::kAllReduce, values, 8);
    ring.start(0);
    change(ring.letters.at(0).chunk.tensor);
    const auto answer = ring.exchanges[1]->on_chunk(ring.letters.at(0).chunk);
    EXPECT_EQ(answer.status().code(), Code::kCorrupt) << answer.status();
  }
}

TEST(Exchange, ScaledContributionsMakeAWeightedMean) {
  const auto values = normal_numbers(3, 1000);
  const double weights[] = {0.5, 0.3, 0.2};
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 64,
                              [&](std::uint32_t i, ExchangeOptions& options) { options.scale = weights[i]; });
  ring.run();
  const auto mean = ring.held(0);
  for (std::size_t j = 0; j < mean.size(); ++j) {
    const double expected = 0.5 * values[0][j] + 0.3 * values[1][j] + 0.2 * values[2][j];
    ASSERT_NEAR(mean[j], expected, 1e-6);
  }
}

TEST(Exchange, AllMembersEndWithTheSameBits) {
  // Numbers whose sum depends on the order of adding.
  const auto values = normal_numbers(5, 1009);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 64);
  ring.run();
  for (std::uint32_t i = 1; i < 5; ++i) EXPECT_TRUE(same_bits(ring.held(i), ring.held(0)));
}

TEST(Exchange, WhatIsReceivedIsNeverModified) {
  const auto values = normal_numbers(3, 300);
  for (const char* codec : {"none", "int8"}) {
    RingOfExchanges<float> ring(Operation::kAllReduce, values, 16, [&](std::uint32_t, ExchangeOptions& options) {
      options.codec = *codec::parse_codec(codec);
    });
    for (std::uint32_t i = 0; i < 3; ++i) ring.start(i);
    for (std::size_t i = 0; i < ring.letters.size(); ++i) {
      const auto letter = ring.letters[i];
      const std::vector<std::byte> before(letter.chunk.tensor.data.bytes.begin(), letter.chunk.tensor.data.bytes.end());
      ring.deliver(letter);
      EXPECT_TRUE(std::ranges::equal(before, letter.chunk.tensor.data.bytes));
    }
  }
}

TEST(Exchange, ResultsMayTakeThePlaceOfTheContribution) {
  auto values = whole_numbers<float>(4, 101);
  const auto expected = sum_of(values);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ExchangeOptions options;
    options.ring = {.members = 4, .self = i, .chunk_elements = 8};
    ring.exchanges[i] = std::make_unique<Exchange<float>>(options, values[i], ring.pool, values[i]);
  }
  ring.run(11);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(values[i], expected);
  }
}

TEST(Exchange, WhatBeginsHereCanBeTakenLittleByLittle) {
  const auto values = whole_numbers<float>(2, 20);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 3);
  Exchange<float>& exchange = *ring.exchanges[0];
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
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 1, [](std::uint32_t self, ExchangeOptions& options) {
    options.scale = self == 1 ? 0 : 0.5;
  });
  ring.run();
  for (std::uint32_t member = 0; member < 3; ++member)
    EXPECT_EQ(ring.held(member), (std::vector<float>{3, 4, 5, 6})) << member;
}

}  // namespace
}  // namespace ravnest::collective
