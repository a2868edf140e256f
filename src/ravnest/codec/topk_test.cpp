#include "ravnest/codec/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "ravnest/codec/half.h"
#include "ravnest/codec/magnitude.h"
#include "ravnest/codec/testing/samples.h"

namespace ravnest::codec {
namespace {

// What is kept, by sorting: the largest, of equals the first.
std::vector<float> kept_by_sorting(const std::vector<float>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return magnitude_bits(values[i]); });
  std::vector<float> kept(values.size());
  for (std::size_t i = 0; i < count; ++i) kept[order[i]] = values[order[i]];
  return kept;
}

std::vector<CodecSample> samples() {
  auto all = finite_samples();
  for (CodecSample& sample : non_finite_samples()) all.push_back(std::move(sample));
  std::mt19937 random(3);
  std::vector<float> several_groups(150000);
  for (float& value : several_groups) value = static_cast<float>(random() % 1000) - 500;
  all.push_back({"several groups", several_groups});
  return all;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

TEST(TopK, KeepsTheLargestBitForBitAndOfEqualsTheFirst) {
  for (const auto& [name, values] : samples()) {
    for (const double keep : {1e-9, 0.01, 0.1, 0.5, 0.99, 1.0}) {
      const Codec codec{CodecKind::kTopK, keep};
      const auto expected = kept_by_sorting(values, topk_count(keep, values.size()));
      for (const CodecKernels& kernels : codec_kernels()) {
        std::vector<std::byte> bytes(encoded_size(codec, values.size()));
        std::vector<float> back(values.size(), 5);
        ASSERT_TRUE(encode_with(kernels, codec, values, bytes).ok());
        ASSERT_TRUE(decode(CodecKind::kTopK, bytes, back).ok());
        ASSERT_TRUE(same_bits(back, expected)) << name << ' ' << kernels.name << " keeping " << keep;
      }
    }
  }
}

TEST(TopK, NothingDroppedIsLargerThanAnythingKept) {
  for (const auto& [name, values] : samples()) {
    const Codec codec{CodecKind::kTopK, 0.2};
    std::vector<std::byte> bytes(encoded_size(codec, values.size()));
    std::vector<float> dropped = values;
    ASSERT_TRUE(encode(codec, values, bytes).ok());
    ASSERT_TRUE(clear_kept(bytes, dropped).ok());
    std::vector<float> kept(values.size());
    ASSERT_TRUE(decode(CodecKind::kTopK, bytes, kept).ok());
    std::uint32_t largest_dropped = 0;
    std::uint32_t smallest_kept = ~0U;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (magnitude_bits(kept[i]) != 0) smallest_kept = std::min(smallest_kept, magnitude_bits(kept[i]));
      largest_dropped = std::max(largest_dropped, magnitude_bits(dropped[i]));
      ASSERT_TRUE(magnitude_bits(dropped[i]) == 0 || magnitude_bits(kept[i]) == 0);
    }
    EXPECT_LE(largest_dropped, smallest_kept) << name;
  }
}

TEST(TopK, KeepsTheShareRoundedUp) {
  EXPECT_EQ(topk_count(0.01, 0), 0U);
  EXPECT_EQ(topk_count(0.01, 1), 1U);
  EXPECT_EQ(topk_count(0.01, 100), 1U);
  EXPECT_EQ(topk_count(0.01, 101), 2U);
  EXPECT_EQ(topk_count(1e-300, 1000), 1U);
  EXPECT_EQ(topk_count(1, 12345), 12345U);
  for (std::size_t percent = 1; percent <= 100; ++percent) {
    EXPECT_EQ(topk_count(static_cast<double>(percent) / 100, 100000), percent * 1000);
  }
}

class TopKBytes : public testing::Test {
 protected:
  // Two groups, of which the first keeps places 3 and 9 and the second, of four elements, place 2.
  TopKBytes() : out_(65540) {
    ByteWriter writer;
    for (const std::uint32_t count : {2U, 1U}) writer.u32(count);
    for (const std::uint16_t place : {3, 9, 2}) writer.u16(place);
    for (const float value : {1.0F, 2.0F, 3.0F}) writer.u32(std::bit_cast<std::uint32_t>(value));
    bytes_ = writer.take();
  }

  template <class T>
  void put(std::size_t position, T value) {
    std::memcpy(bytes_.data() + position, &value, sizeof value);
  }
  Status decoded() { return decode(CodecKind::kTopK, bytes_, out_); }

  static constexpr std::size_t kPlaces = 8;
  std::vector<std::byte> bytes_;
  std::vector<float> out_;
};

TEST_F(TopKBytes, AreReadAsWritten) {
  ASSERT_TRUE(decoded().ok());
  EXPECT_EQ(out_[3], 1);
  EXPECT_EQ(out_[9], 2);
  EXPECT_EQ(out_[65538], 3);
  EXPECT_EQ(std::ranges::count(out_, 0.0F), 65537);
}

TEST_F(TopKBytes, WithPlacesThatDoNotIncreaseAreCorrupt) {
  put<std::uint16_t>(kPlaces + 2, 3);
  EXPECT_EQ(decoded().code(), Code::kCorrupt);
  put<std::uint16_t>(kPlaces + 2, 2);
  EXPECT_EQ(decoded().code(), Code::kCorrupt);
}

TEST_F(TopKBytes, WithAPlaceBeyondTheLastElementAreCorrupt) {
  put<std::uint16_t>(kPlaces + 4, 3);
  EXPECT_TRUE(decoded().ok());
  put<std::uint16_t>(kPlaces + 4, 4);
  EXPECT_EQ(decoded().code(), Code::kCorrupt);
}

TEST_F(TopKBytes, WithCountsThatDoNotAddUpAreCorrupt) {
  put<std::uint32_t>(4, 0);
  EXPECT_EQ(decoded(), corrupt("a top-k encoding keeps 3 elements, but counts 2"));
  for (const std::uint32_t count : {2U, 0xFFFFFFFFU}) {
    put<std::uint32_t>(4, count);
    EXPECT_EQ(decoded(), corrupt("a top-k encoding counts more elements than the 3 it keeps"));
  }
}

TEST_F(TopKBytes, OfAnotherNumberOfElementsAreRefusedBeforeAnythingIsWritten) {
  for (const std::size_t elements : {0, 1, 65536, 65537 + 65536}) {
    out_.assign(elements, 7);
    EXPECT_FALSE(is_encoded_size(CodecKind::kTopK, elements, bytes_.size())) << elements;
    EXPECT_EQ(decoded().code(), Code::kCorrupt);
    EXPECT_EQ(std::ranges::count(out_, 7.0F), static_cast<std::ptrdiff_t>(elements));
  }
}

TEST_F(TopKBytes, OfATensorWithFewerElementsThanAreKeptAreCorrupt) {
  std::vector<std::byte> bytes(4 + 6 * 3);
  bytes[0] = std::byte{3};
  std::vector<float> two(2);
  EXPECT_EQ(decode(CodecKind::kTopK, bytes, two).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::codec
