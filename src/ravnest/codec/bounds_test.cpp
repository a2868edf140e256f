// The bounds that codec.h promises, on data that is hard on them, by every kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ravnest/codec/codec.h"
#include "ravnest/codec/kernels.h"
#include "ravnest/codec/testing/samples.h"

namespace ravnest::codec {
namespace {

std::vector<float> there_and_back(const CodecKernels& kernels, const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_size(codec, values.size()));
  std::vector<float> back(values.size(), -77);
  EXPECT_TRUE(encode_with(kernels, codec, values, bytes).ok());
  EXPECT_TRUE(decode_with(kernels, codec.kind, bytes, back).ok());
  return back;
}

struct Block {
  double largest = 0;
  bool all_finite = true;
};

Block block_at(const std::vector<float>& values, std::size_t index, std::size_t size) {
  Block block;
  const std::size_t start = index / size * size;
  for (std::size_t i = start; i < std::min(start + size, values.size()); ++i) {
    if (std::isfinite(values[i])) block.largest = std::max(block.largest, std::fabs(static_cast<double>(values[i])));
    block.all_finite = block.all_finite && std::isfinite(values[i]);
  }
  return block;
}

double bound(CodecKind kind, const std::vector<float>& values, std::size_t i) {
  constexpr double kArithmetic = 1 + 0x1p-14;
  const double magnitude = std::fabs(static_cast<double>(values[i]));
  switch (kind) {
    case CodecKind::kFp16: return std::max(magnitude * 0x1p-11, 0x1p-25);
    case CodecKind::kBf16: return std::max(magnitude * 0x1p-8, 0x1p-134);
    case CodecKind::kInt8: {
      const Block block = block_at(values, i, 128);
      return block.largest / (block.all_finite ? 254 : 252) * kArithmetic + 0x1p-150;
    }
    case CodecKind::kInt4: {
      const Block block = block_at(values, i, 32);
      return block.largest / (block.all_finite ? 14 : 12) * kArithmetic + 0x1p-134;
    }
    default: return 0;
  }
}

// From which magnitude on a number becomes an infinity: half way from the largest to what would come next.
double overflow(CodecKind kind) {
  if (kind == CodecKind::kFp16) return 65520;
  if (kind == CodecKind::kBf16) return 0x1.FFp127;
  return HUGE_VAL;
}

class CodecBounds : public testing::TestWithParam<CodecKind> {};

TEST_P(CodecBounds, HoldForFiniteNumbersWhateverIsBesideThem) {
  auto samples = finite_samples();
  for (CodecSample& sample : non_finite_samples()) samples.push_back(std::move(sample));
  for (const CodecKernels& kernels : codec_kernels()) {
    for (const auto& [name, values] : samples) {
      const auto back = there_and_back(kernels, {.kind = GetParam()}, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) continue;
        if (std::fabs(values[i]) >= overflow(GetParam())) {
          ASSERT_EQ(back[i], std::copysign(HUGE_VALF, values[i])) << name << ' ' << kernels.name;
          continue;
        }
        ASSERT_TRUE(std::isfinite(back[i])) << values[i] << " in " << name << ' ' << kernels.name;
        ASSERT_LE(std::fabs(static_cast<double>(back[i]) - values[i]), bound(GetParam(), values, i))
            << values[i] << " came back as " << back[i] << " in " << name << ' ' << kernels.name;
      }
    }
  }
}

TEST_P(CodecBounds, NanAndInfinitiesStayWhatAndWhereTheyAre) {
  for (const CodecKernels& kernels : codec_kernels()) {
    for (const auto& [name, values] : non_finite_samples()) {
      const auto back = there_and_back(kernels, {.kind = GetParam()}, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::isnan(back[i]), std::isnan(values[i])) << name << ' ' << kernels.name;
        if (std::isinf(values[i])) {
          ASSERT_EQ(back[i], values[i]) << name << ' ' << kernels.name;
        }
      }
    }
  }
}

TEST_P(CodecBounds, ZeroStaysZero) {
  const auto back = there_and_back(codec_kernels().front(), {.kind = GetParam()}, std::vector<float>(200, -0.0F));
  EXPECT_EQ(std::ranges::count(back, 0.0F), 200);
}

INSTANTIATE_TEST_SUITE_P(Codec, CodecBounds,
                         testing::Values(CodecKind::kNone, CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8,
                                         CodecKind::kInt4),
                         [](const auto& test) { return to_string(Codec{.kind = test.param}); });

}  // namespace
}  // namespace ravnest::codec
