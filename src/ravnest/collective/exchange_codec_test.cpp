// Exchanges of values that are compressed on the way.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ravnest/collective/exchange.h"
#include "ravnest/collective/testing/exchange.h"

namespace ravnest::collective {
namespace {

constexpr std::size_t kElements = 1009;
constexpr std::uint32_t kMembers = 4;

class CodedExchange : public testing::TestWithParam<const char*> {
 protected:
  using Values = std::vector<std::vector<float>>;

  // One all-reduce in which each member counts as much; what all hold at the end.
  std::vector<float> mean_of(const Values& values, std::vector<codec::ErrorFeedback>* residuals, std::uint64_t seed) {
    RingOfExchanges<float> ring(Operation::kAllReduce, values, 128, [&](std::uint32_t i, ExchangeOptions& options) {
      options.codec = codec_;
      options.scale = 1.0 / kMembers;
      if (residuals != nullptr) options.residual = &(*residuals)[i];
    });
    ring.run(seed);
    for (std::uint32_t i = 0; i < kMembers; ++i) {
      EXPECT_TRUE(ring.exchanges[i]->complete());
      EXPECT_TRUE(same_bits(ring.held(i), ring.held(0)));
    }
    return ring.held(0);
  }

  static double mean_at(const Values& values, std::size_t i) {
    double sum = 0;
    for (const auto& each : values) sum += each[i];
    return sum / static_cast<double>(values.size());
  }

  const codec::Codec codec_ = *codec::parse_codec(GetParam());
};

TEST_P(CodedExchange, AllMembersEndWithTheSameBits) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) mean_of(normal_numbers(kMembers, kElements, seed), nullptr, seed);
}

TEST_P(CodedExchange, OverManyRoundsTheMeanIsRight) {
  constexpr int kRounds = 400;
  const auto values = normal_numbers(kMembers, kElements);
  std::vector<codec::ErrorFeedback> residuals(kMembers, codec::ErrorFeedback(kElements));
  std::vector<double> total(kElements);
  double forgetful = 0;
  double faithful = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto mean = mean_of(values, &residuals, static_cast<std::uint64_t>(round));
    for (std::size_t i = 0; i < kElements; ++i) total[i] += mean[i];
  }
  const auto once = mean_of(values, nullptr, 1);
  for (std::size_t i = 0; i < kElements; ++i) {
    const double expected = mean_at(values, i);
    // What is missing at the end lies in the residuals.
    double missing = 0;
    for (const auto& residual : residuals) missing += residual.residual()[i];
    ASSERT_NEAR(total[i] + missing, kRounds * expected, kRounds * 1e-5) << i;
    faithful = std::max(faithful, std::fabs(total[i] / kRounds - expected));
    forgetful = std::max(forgetful, std::fabs(once[i] - expected));
  }
  // Without the residual the same error is made in each round.
  EXPECT_LT(faithful, forgetful / 10);
}

TEST_P(CodedExchange, AResidualFitsAfterTheMembersHaveChanged) {
  std::vector<codec::ErrorFeedback> residuals(kMembers, codec::ErrorFeedback(kElements));
  mean_of(normal_numbers(kMembers, kElements), &residuals, 1);
  const auto fewer = normal_numbers(kMembers - 1, kElements);
  RingOfExchanges<float> ring(Operation::kAllReduce, fewer, 128, [&](std::uint32_t i, ExchangeOptions& options) {
    options.codec = codec_;
    options.residual = &residuals[i];
  });
  ring.run();
  for (std::uint32_t i = 0; i < kMembers - 1; ++i) EXPECT_TRUE(ring.exchanges[i]->complete());
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodedExchange, testing::Values("fp16", "bf16", "int8", "int4", "topk:0.1"),
                         [](const auto& codec) { return std::string(codec.param).substr(0, 4); });

TEST(Compression, WhatIsNotSentIsNotEncoded) {
  const auto values = whole_numbers<float>(1, 100);
  RingOfExchanges<float> alone(Operation::kAllReduce, values, 16, [](std::uint32_t, ExchangeOptions& options) {
    options.codec = {.kind = codec::CodecKind::kInt4};
  });
  alone.run();
  EXPECT_EQ(alone.held(0), values[0]);
}

TEST(Compression, BytesThatAreNoEncodingEndTheExchange) {
  const auto values = normal_numbers(2, 300);
  RingOfExchanges<float> ring(Operation::kAllReduce, values, 128, [](std::uint32_t, ExchangeOptions& options) {
    options.codec = *codec::parse_codec("topk:0.1");
  });
  ring.start(0);
  wire::RingChunk chunk = ring.letters.at(0).chunk;
  chunk.tensor.data = slice_of(std::vector<std::byte>(chunk.tensor.data.size(), std::byte{255}));
  EXPECT_EQ(ring.exchanges[1]->on_chunk(chunk).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::collective
