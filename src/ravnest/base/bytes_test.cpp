#include "ravnest/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ravnest {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

TEST(ByteReader, ReadsUnsignedNumbersLittleEndian) {
  const std::array<std::uint8_t, 15> raw{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                                         0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x8f};
  ByteReader reader(std::as_bytes(std::span(raw)));
  EXPECT_EQ(reader.u8().value(), 0x01U);
  EXPECT_EQ(reader.u16().value(), 0x0302U);
  EXPECT_EQ(reader.u32().value(), 0x07060504U);
  EXPECT_EQ(reader.u64().value(), 0x8f0e0d0c0b0a0908U);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteReader, ReadPastTheEndFailsAndMovesNothing) {
  ByteReader reader(as_byte_span("abc"));
  EXPECT_EQ(reader.u32().status().code(), Code::kCorrupt);
  EXPECT_EQ(reader.u64().status().code(), Code::kCorrupt);
  EXPECT_EQ(reader.position(), 0U);
  EXPECT_EQ(reader.u16().value(), 0x6261U);
  EXPECT_EQ(reader.u16().status().message(), "wanted 2 bytes at position 2, but only 1 are left");
  EXPECT_EQ(reader.u8().value(), 0x63U);
  EXPECT_FALSE(reader.u8().ok());
}

TEST(ByteReader, LengthsThatWouldOverflowThePositionFail) {
  ByteReader reader(as_byte_span("abcdef"));
  ASSERT_TRUE(reader.skip(3).ok());
  EXPECT_EQ(reader.bytes(kHuge).status().code(), Code::kCorrupt);
  EXPECT_EQ(reader.bytes(kHuge - 2).status().code(), Code::kCorrupt);
  EXPECT_EQ(reader.skip(kHuge).code(), Code::kCorrupt);
  EXPECT_EQ(reader.seek(kHuge).code(), Code::kCorrupt);
  EXPECT_EQ(reader.position(), 3U);
}

TEST(ByteReader, BytesAreHandedOutWithoutACopy) {
  const std::string source = "header+body";
  ByteReader reader(as_byte_span(source));
  ASSERT_TRUE(reader.skip(7).ok());
  const auto body = reader.bytes(4);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(as_string_view(*body), "body");
  EXPECT_EQ(static_cast<const void*>(body->data()), source.data() + 7);
}

TEST(ByteReader, SeekReachesTheEndButNotBeyond) {
  ByteReader reader(as_byte_span("abcd"));
  EXPECT_TRUE(reader.seek(4).ok());
  EXPECT_EQ(reader.remaining(), 0U);
  EXPECT_EQ(reader.seek(5).message(), "position 5 is beyond the end at 4");
  EXPECT_EQ(reader.position(), 4U);
  ASSERT_TRUE(reader.seek(1).ok());
  EXPECT_EQ(reader.u8().value(), 'b');
}

TEST(ByteReader, EmptyInputAllowsOnlyEmptyReads) {
  ByteReader reader(ByteSpan{});
  EXPECT_TRUE(reader.bytes(0).ok());
  EXPECT_TRUE(reader.skip(0).ok());
  EXPECT_FALSE(reader.u8().ok());
}

TEST(ByteWriter, WhatIsWrittenReadsBackTheSame) {
  ByteWriter writer;
  writer.u8(0xfe);
  writer.u16(0xfedc);
  writer.u32(0xfedcba98U);
  writer.u64(0xfedcba9876543210U);
  writer.string("name");
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.u8().value(), 0xfeU);
  EXPECT_EQ(reader.u16().value(), 0xfedcU);
  EXPECT_EQ(reader.u32().value(), 0xfedcba98U);
  EXPECT_EQ(reader.u64().value(), 0xfedcba9876543210U);
  EXPECT_EQ(as_string_view(reader.bytes(4).value()), "name");
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteWriter, PatchReplacesExactlyTheBytesNamed) {
  ByteWriter writer;
  writer.u8(0x66);
  writer.u32(0);
  writer.u8(0x77);
  ASSERT_TRUE(writer.patch_u32(1, 15).ok());
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.u8().value(), 0x66U);
  EXPECT_EQ(reader.u32().value(), 15U);
  EXPECT_EQ(reader.u8().value(), 0x77U);
}

TEST(ByteWriter, PatchOutsideOfWhatWasWrittenFails) {
  ByteWriter writer;
  writer.u32(7);
  EXPECT_EQ(writer.patch_u32(1, 9).code(), Code::kInvalid);
  EXPECT_EQ(writer.patch_u32(std::numeric_limits<std::size_t>::max(), 9).code(), Code::kInvalid);
  EXPECT_EQ(ByteReader(writer.bytes()).u32().value(), 7U);
}

TEST(ByteWriter, TakeHandsTheBufferOverAndLeavesTheWriterEmpty) {
  ByteWriter writer;
  writer.string("abc");
  const std::vector<std::byte> taken = writer.take();
  EXPECT_EQ(as_string_view(taken), "abc");
  EXPECT_EQ(writer.size(), 0U);
}

}  // namespace
}  // namespace ravnest
