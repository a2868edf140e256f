#include "ravnest/codec/error_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ravnest::codec {
namespace {

constexpr std::size_t kElements = 10007;  // more than one piece, and no multiple of a block

class Feedback : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> send(std::span<const float> values) {
    std::vector<std::byte> bytes(encoded_size(codec_, values.size()));
    std::vector<float> back(values.size());
    EXPECT_TRUE(feedback_.encode(codec_, values, bytes).ok());
    EXPECT_TRUE(decode(codec_.kind, bytes, back).ok());
    return back;
  }

  std::vector<float> random_values() {
    std::vector<float> values(kElements);
    for (float& value : values) value = normal_(random_);
    return values;
  }

  Codec codec_ = *parse_codec(GetParam());
  ErrorFeedback feedback_{kElements};
  std::mt19937 random_{5};
  std::normal_distribution<float> normal_;
};

TEST_P(Feedback, WhatArrivesIsWhatWasSentLessTheResidual) {
  constexpr int kRounds = 200;
  std::vector<double> sent(kElements);
  std::vector<double> arrived(kElements);
  std::vector<double> magnitudes(kElements);
  for (int round = 0; round < kRounds; ++round) {
    const auto values = random_values();
    const auto back = send(values);
    for (std::size_t i = 0; i < kElements; ++i) {
      sent[i] += values[i];
      arrived[i] += back[i];
      magnitudes[i] += std::fabs(static_cast<double>(values[i])) + std::fabs(feedback_.residual()[i]);
    }
  }
  for (std::size_t i = 0; i < kElements; ++i) {
    // Each round rounds one sum and one difference of floats.
    ASSERT_NEAR(arrived[i], sent[i] - feedback_.residual()[i], magnitudes[i] * 0x1p-22) << i;
  }
}

TEST_P(Feedback, NothingThatIsNotFiniteEntersTheResidual) {
  auto values = random_values();
  static_cast<void>(send(values));
  values[0] = std::numeric_limits<float>::quiet_NaN();
  values[5000] = std::numeric_limits<float>::infinity();
  values[9999] = -std::numeric_limits<float>::infinity();
  values[10000] = std::numeric_limits<float>::max();
  const auto back = send(values);
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_EQ(back[5000], values[5000]);
  EXPECT_EQ(back[9999], values[9999]);
  EXPECT_TRUE(std::ranges::all_of(feedback_.residual(), [](float value) { return std::isfinite(value); }));
  for (const std::size_t i : {0, 5000, 9999}) EXPECT_EQ(feedback_.residual()[i], 0) << i;
}

TEST_P(Feedback, AfterAResetIsAsNew) {
  const auto values = random_values();
  const auto first = send(values);
  static_cast<void>(send(values));
  feedback_.reset();
  EXPECT_EQ(send(values), first);
}

TEST_P(Feedback, WrongSizesAreRefusedAndChangeNothing) {
  static_cast<void>(send(random_values()));
  const std::vector<float> before(feedback_.residual().begin(), feedback_.residual().end());
  const auto values = random_values();
  std::vector<std::byte> bytes(encoded_size(codec_, kElements) + 1);
  EXPECT_EQ(feedback_.encode(codec_, values, bytes).code(), Code::kInvalid);
  bytes.resize(encoded_size(codec_, kElements - 1));
  EXPECT_EQ(feedback_.encode(codec_, std::span(values).first(kElements - 1), bytes).code(), Code::kInvalid);
  EXPECT_TRUE(std::ranges::equal(feedback_.residual(), before));
}

TEST_P(Feedback, APartIsEncodedLikeATensorOfItsOwn) {
  constexpr std::size_t kFirst = 777;
  constexpr std::size_t kSize = 5000;
  ErrorFeedback alone(kSize);
  std::vector<std::byte> bytes(encoded_size(codec_, kSize));
  std::vector<std::byte> expected(bytes.size());
  for (int round = 0; round < 3; ++round) {
    const auto values = random_values();
    const auto part = std::span(values).first(kSize);
    ASSERT_TRUE(feedback_.encode(codec_, part, bytes, kFirst).ok());
    ASSERT_TRUE(alone.encode(codec_, part, expected).ok());
    EXPECT_EQ(bytes, expected);
  }
  EXPECT_TRUE(std::ranges::equal(feedback_.residual().subspan(kFirst, kSize), alone.residual()));
  const auto is_zero = [](float value) { return value == 0; };
  EXPECT_TRUE(std::ranges::all_of(feedback_.residual().first(kFirst), is_zero));
  EXPECT_TRUE(std::ranges::all_of(feedback_.residual().subspan(kFirst + kSize), is_zero));
  EXPECT_EQ(feedback_.encode(codec_, alone.residual(), bytes, kElements - kSize + 1).code(), Code::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Codec, Feedback, testing::Values("none", "fp16", "bf16", "int8", "int4", "topk:0.02"),
                         [](const auto& test) { return std::string(test.param).substr(0, 4); });

TEST(FeedbackOfInt4, SmallValuesBesideALargeOneArriveInTheEnd) {
  std::vector<float> values(32, 0.001F);
  values[0] = 1;
  ErrorFeedback feedback(32);
  const Codec codec{.kind = CodecKind::kInt4};
  std::vector<std::byte> bytes(encoded_size(codec, 32));
  std::vector<float> back(32);
  double arrived = 0;
  for (int round = 0; round < 1000; ++round) {
    ASSERT_TRUE(feedback.encode(codec, values, bytes).ok());
    ASSERT_TRUE(decode(codec.kind, bytes, back).ok());
    arrived += back[1];
  }
  EXPECT_NEAR(arrived, 1.0, 0.08);
}

}  // namespace
}  // namespace ravnest::codec
