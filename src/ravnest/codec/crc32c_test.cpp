#include "ravnest/codec/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "ravnest/codec/crc32c_kernels.h"

namespace ravnest::codec {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// By the definition, one bit at a time, with nothing in common with what is tested.
std::uint32_t sum_by_definition(ByteSpan bytes) {
  std::uint32_t state = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t out = (state ^ (std::to_integer<std::uint32_t>(byte) >> bit)) & 1;
      state = (state >> 1) ^ (out * 0x82F63B78);
    }
  }
  return ~state;
}

TEST(Crc32c, PublishedSumsComeOut) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(as_byte_span("123456789")), 0xE3069283U);
  std::array<std::byte, 32> bytes{};
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAU);
  bytes.fill(std::byte{0xFF});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794EU);
  std::ranges::reverse(bytes);
  EXPECT_EQ(crc32c(bytes), 0x113FDB5CU);
}

TEST(Crc32c, EveryKernelGivesTheSumOfTheDefinitionAtEveryLengthAndAlignment) {
  const auto bytes = random_bytes(1024 + 64);
  for (const Crc32cKernel& kernel : crc32c_kernels()) {
    for (std::size_t length = 0; length <= 1024; ++length) {
      const std::size_t start = length % 64;
      ASSERT_EQ(~kernel.extend(bytes.data() + start, length, ~0U),
                sum_by_definition(ByteSpan(bytes).subspan(start, length)))
          << kernel.name << " at length " << length;
    }
    for (std::size_t start = 0; start < 64; ++start) {
      for (const std::size_t length : {1UL, 7UL, 63UL, 391UL, 1000UL}) {
        ASSERT_EQ(kernel.extend(bytes.data() + start, length, 0x12345678),
                  extend_crc32c_portable(bytes.data() + start, length, 0x12345678))
            << kernel.name << " from " << start;
      }
    }
  }
}

TEST(Crc32c, EveryKernelAgreesOnLongData) {
  const auto bytes = random_bytes(100003);
  const std::uint32_t expected = sum_by_definition(bytes);
  for (const Crc32cKernel& kernel : crc32c_kernels()) {
    EXPECT_EQ(~kernel.extend(bytes.data(), bytes.size(), ~0U), expected) << kernel.name;
  }
}

TEST(Crc32c, ASumGoesOnFromWhereItStopped) {
  const auto bytes = random_bytes(3000);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37) {
    const ByteSpan span(bytes);
    ASSERT_EQ(crc32c(span.subspan(cut), crc32c(span.first(cut))), whole) << cut;
  }
}

TEST(Crc32c, OneChangedBitChangesTheSum) {
  auto bytes = random_bytes(300);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(crc32c(bytes), whole) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace ravnest::codec
