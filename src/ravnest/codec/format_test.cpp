// Encodings byte by byte: what other machines, and other versions of this one, have to agree on.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ravnest/codec/codec.h"
#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int> encoded(const char* name, const std::vector<float>& values) {
  const Codec codec = *parse_codec(name);
  std::vector<std::byte> bytes(encoded_size(codec, values.size()));
  EXPECT_TRUE(encode(codec, values, bytes).ok());
  std::vector<int> numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

// What every kernel says.
Code decoded_code(CodecKind kind, const std::vector<int>& numbers, std::size_t elements) {
  std::vector<std::byte> bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  std::vector<float> values(elements);
  const Code code = decode(kind, bytes, values).code();
  for (const CodecKernels& kernels : codec_kernels()) {
    EXPECT_EQ(decode_with(kernels, kind, bytes, values).code(), code) << kernels.name;
  }
  return code;
}

std::vector<int> block(std::vector<int> scale, std::size_t codes, int first_code) {
  scale.resize(scale.size() + codes);
  scale[scale.size() - codes] = first_code;
  return scale;
}

using Bytes = std::vector<int>;

TEST(CodecFormat, HalvesAreLittleEndian) {
  EXPECT_EQ(encoded("none", {1, -2}), (Bytes{0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}));
  EXPECT_EQ(encoded("fp16", {1, -2, 65504, 65520, 0x1p-24F, kNan}),
            (Bytes{0, 0x3C, 0, 0xC0, 0xFF, 0x7B, 0, 0x7C, 1, 0, 0, 0x7E}));
  EXPECT_EQ(encoded("bf16", {1, -2, kInfinity, kNan}), (Bytes{0x80, 0x3F, 0, 0xC0, 0x80, 0x7F, 0xC0, 0x7F}));
}

TEST(CodecFormat, HalvesRoundTiesToEven) {
  EXPECT_EQ(encoded("fp16", {1 + 0x1p-11F, 1 + 0x3p-11F, 0x1p-25F, 0x3p-25F}), (Bytes{0, 0x3C, 2, 0x3C, 0, 0, 2, 0}));
  EXPECT_EQ(encoded("bf16", {1 + 0x1p-8F, 1 + 0x3p-8F}), (Bytes{0x80, 0x3F, 0x82, 0x3F}));
}

TEST(CodecFormat, Int8IsAScaleAndCodes) {
  EXPECT_EQ(encoded("int8", {127, -127, 1, 0.5F, 1.5F, -3}), (Bytes{0, 0, 0x80, 0x3F, 127, 0x81, 1, 0, 2, 0xFD}));
  std::vector<float> two_blocks(129, 127);
  two_blocks[128] = 254;
  const Bytes bytes = encoded("int8", two_blocks);
  EXPECT_EQ(Bytes(bytes.begin() + 131, bytes.end()), (Bytes{127, 0, 0, 0, 0x40, 127}));
}

TEST(CodecFormat, Int8WithSomethingNotFiniteHasANegativeScale) {
  EXPECT_EQ(encoded("int8", {126, kNan, kInfinity, -kInfinity, -126}),
            (Bytes{0, 0, 0x80, 0xBF, 126, 0x80, 127, 0x81, 0x82}));
  EXPECT_EQ(encoded("int8", {kNan, 0}), (Bytes{0, 0, 0, 0x80, 0x80, 0}));
}

TEST(CodecFormat, Int4IsAScaleInBf16AndTwoCodesAByteTheFirstInTheLowerHalf) {
  EXPECT_EQ(encoded("int4", {7, -7, 1, 2, -1}), (Bytes{0x80, 0x3F, 0x97, 0x21, 0x0F}));
  EXPECT_EQ(encoded("int4", {6, kNan, kInfinity, -kInfinity}), (Bytes{0x80, 0xBF, 0x86, 0x97}));
}

TEST(CodecFormat, Int4ScaleIsRoundedDown) {
  // 7.9 / 7 is 1.1286; the bf16 below is 1 + 16/128, the one above 1 + 17/128.
  EXPECT_EQ(encoded("int4", {7.9F}), (Bytes{0x90, 0x3F, 0x07}));
}

TEST(CodecFormat, TopKIsCountsThenPlacesThenValues) {
  EXPECT_EQ(encoded("topk:0.5", {1, -2, 0, 0.5F}), (Bytes{2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}));
  std::vector<float> two_groups(65540);
  two_groups[65539] = 1;
  two_groups[65535] = 2;
  EXPECT_EQ(encoded("topk:0.00003", two_groups), (Bytes{1,    0,    0, 0,    1, 0, 0,    0,  //
                                                        0xFF, 0xFF, 3, 0,                    //
                                                        0,    0,    0, 0x40, 0, 0, 0x80, 0x3F}));
}

TEST(CodecFormat, ScalesThatNoEncoderWritesAreCorrupt) {
  const std::vector<Bytes> bad_int8 = {{0, 0, 0xC0, 0x7F},         // NaN
                                       {0, 0, 0x80, 0x7F},         // infinity
                                       {0, 0, 0x80, 0xFF},         // the other infinity
                                       {0xFF, 0xFF, 0x7F, 0x7F},   // 127 times the largest number
                                       {0x07, 0x04, 0x02, 0x7C}};  // the first that is too large
  for (const Bytes& scale : bad_int8) {
    EXPECT_EQ(decoded_code(CodecKind::kInt8, block(scale, 1, 0), 1), Code::kCorrupt);
    EXPECT_EQ(decoded_code(CodecKind::kInt8, block(scale, 128, 0), 128), Code::kCorrupt);
  }
  for (const Bytes& scale : {Bytes{0xC0, 0x7F}, Bytes{0x80, 0x7F}, Bytes{0x80, 0xFF}, Bytes{0x7F, 0x7F}}) {
    EXPECT_EQ(decoded_code(CodecKind::kInt4, block(scale, 1, 0), 1), Code::kCorrupt);
    EXPECT_EQ(decoded_code(CodecKind::kInt4, block(scale, 16, 0), 32), Code::kCorrupt);
  }
}

TEST(CodecFormat, TheCodeOfNanIsCorruptWhereAllIsFinite) {
  const Bytes one8 = {0, 0, 0x80, 0x3F};
  const Bytes minus_one8 = {0, 0, 0x80, 0xBF};
  for (const std::size_t count : {1UL, 128UL}) {
    EXPECT_EQ(decoded_code(CodecKind::kInt8, block(one8, count, 0x80), count), Code::kCorrupt);
    EXPECT_EQ(decoded_code(CodecKind::kInt8, block(one8, count, 0x81), count), Code::kOk);
    EXPECT_EQ(decoded_code(CodecKind::kInt8, block(minus_one8, count, 0x80), count), Code::kOk);
  }
  for (const std::size_t count : {2UL, 32UL}) {
    for (const int nibbles : {0x08, 0x80}) {
      EXPECT_EQ(decoded_code(CodecKind::kInt4, block({0x80, 0x3F}, count / 2, nibbles), count), Code::kCorrupt);
      EXPECT_EQ(decoded_code(CodecKind::kInt4, block({0x80, 0xBF}, count / 2, nibbles), count), Code::kOk);
    }
  }
}

TEST(CodecFormat, TheUnusedHalfOfTheLastByteOfInt4IsZero) {
  EXPECT_EQ(decoded_code(CodecKind::kInt4, {0x80, 0x3F, 0x05}, 1), Code::kOk);
  EXPECT_EQ(decoded_code(CodecKind::kInt4, {0x80, 0x3F, 0x15}, 1), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::codec
