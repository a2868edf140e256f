#include "ravnest/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ravnest/codec/kernels.h"
#include "ravnest/codec/testing/samples.h"

namespace ravnest::codec {
namespace {

const char* const kNames[] = {"none", "fp16", "bf16", "int8", "int4", "topk:0.01", "topk:0.3", "topk:1"};

TEST(CodecName, IsReadAndWrittenTheSame) {
  for (const char* name : kNames) {
    const auto codec = parse_codec(name);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ(to_string(*codec), name);
    EXPECT_EQ(text(*codec), name);
  }
  EXPECT_EQ(*parse_codec("topk:0.25"), (Codec{CodecKind::kTopK, 0.25}));
  EXPECT_EQ(*parse_codec("bf16"), (Codec{CodecKind::kBf16, 1}));
  EXPECT_EQ(codec_for(true), *parse_codec("fp16"));
  EXPECT_EQ(codec_for(false), *parse_codec("none"));
  EXPECT_EQ(*parse_codec(to_string({CodecKind::kTopK, 1.0 / 3})), (Codec{CodecKind::kTopK, 1.0 / 3}));
}

TEST(CodecName, WhatIsNoneIsRefusedWithAListOfThose) {
  for (const char* name : {"", "fp32", "FP16", " fp16", "int8 ", "topk", "int8:2", "True"}) {
    const Status status = parse_codec(name).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << name;
    for (const char* accepted : {"none", "fp16", "bf16", "int8", "int4", "topk:0.01"}) {
      EXPECT_NE(status.message().find(accepted), std::string::npos) << status;
    }
  }
}

TEST(CodecName, TopKTakesAShareAboveZeroUpToOne) {
  for (const char* name :
       {"topk:", "topk:0", "topk:-0.1", "topk:1.01", "topk:nan", "topk:inf", "topk:0.1x", "topk: 1"}) {
    const Status status = parse_codec(name).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << name;
    EXPECT_NE(status.message().find("above 0 and at most 1"), std::string::npos) << status;
  }
}

TEST(Codec, SizesAreThoseOfTheFormat) {
  const auto size = [](const char* name, std::size_t elements) { return encoded_size(*parse_codec(name), elements); };
  for (const char* name : kNames) EXPECT_EQ(size(name, 0), 0U) << name;
  EXPECT_EQ(size("none", 5), 20U);
  EXPECT_EQ(size("fp16", 5), 10U);
  EXPECT_EQ(size("bf16", 5), 10U);
  EXPECT_EQ(size("int8", 1), 5U);
  EXPECT_EQ(size("int8", 128), 132U);
  EXPECT_EQ(size("int8", 129), 137U);
  EXPECT_EQ(size("int4", 1), 3U);
  EXPECT_EQ(size("int4", 32), 18U);
  EXPECT_EQ(size("int4", 35), 22U);
  EXPECT_EQ(size("topk:0.01", 1), 10U);
  EXPECT_EQ(size("topk:0.01", 1000), 4U + 6 * 10);
  EXPECT_EQ(size("topk:0.01", 1001), 4U + 6 * 11);
  EXPECT_EQ(size("topk:0.07", 100), 4U + 6 * 7);
  EXPECT_EQ(size("topk:1", 65536), 4U + 6 * 65536);
  EXPECT_EQ(size("topk:1", 65537), 8U + 6 * 65537);
}

TEST(Codec, EncodingIntoTheWrongSizeIsRefused) {
  const std::vector<float> values(100, 1.0F);
  for (const char* name : kNames) {
    const Codec codec = *parse_codec(name);
    for (const std::size_t size : {std::size_t{0}, encoded_size(codec, 100) - 1, encoded_size(codec, 100) + 1}) {
      std::vector<std::byte> out(size);
      EXPECT_EQ(encode(codec, values, out).code(), Code::kInvalid) << name;
    }
  }
  std::vector<std::byte> out(604);
  EXPECT_EQ(encode({CodecKind::kTopK, 2}, values, out).code(), Code::kInvalid);
  EXPECT_EQ(encode({static_cast<CodecKind>(6), 1}, values, {}).code(), Code::kInvalid);
}

TEST(Codec, DecodingTheWrongSizeIsCorruptAndAnUnknownKindUnsupported) {
  std::vector<float> values(100, 1.0F);
  for (const char* name : kNames) {
    const Codec codec = *parse_codec(name);
    std::vector<std::byte> bytes(encoded_size(codec, 100));
    ASSERT_TRUE(encode(codec, values, bytes).ok());
    ASSERT_TRUE(decode(codec.kind, bytes, values).ok());
    bytes.push_back({});
    EXPECT_EQ(decode(codec.kind, bytes, values).code(), Code::kCorrupt) << name;
    EXPECT_EQ(decode(codec.kind, ByteSpan(bytes).first(bytes.size() - 2), values).code(), Code::kCorrupt) << name;
    EXPECT_EQ(decode(codec.kind, {}, values).code(), Code::kCorrupt) << name;
    EXPECT_TRUE(decode(codec.kind, {}, {}).ok()) << name;
    EXPECT_EQ(decode(codec.kind, bytes, {}).code(), Code::kCorrupt) << name;
  }
  EXPECT_EQ(decode(static_cast<CodecKind>(6), {}, values).code(), Code::kUnsupported);
  EXPECT_EQ(decode(static_cast<CodecKind>(255), {}, values).code(), Code::kUnsupported);
}

TEST(Codec, EveryKernelWritesTheSameBytesAndReadsTheSameBits) {
  const auto all_kernels = codec_kernels();
  ASSERT_EQ(all_kernels.back().name, "portable");
  std::vector<CodecSample> samples = finite_samples();
  for (CodecSample& sample : non_finite_samples()) samples.push_back(std::move(sample));
  for (const char* name : kNames) {
    const Codec codec = *parse_codec(name);
    for (const CodecSample& sample : samples) {
      const std::size_t size = encoded_size(codec, sample.values.size());
      std::vector<std::byte> expected(size);
      std::vector<float> decoded(sample.values.size());
      ASSERT_TRUE(encode_with(all_kernels.back(), codec, sample.values, expected).ok());
      ASSERT_TRUE(decode_with(all_kernels.back(), codec.kind, expected, decoded).ok());
      for (const CodecKernels& kernels : all_kernels) {
        // One byte off, so that nothing is aligned.
        std::vector<std::byte> bytes(size + 1);
        const auto out = std::span(bytes).subspan(1);
        std::vector<float> back(sample.values.size());
        ASSERT_TRUE(encode_with(kernels, codec, sample.values, out).ok());
        ASSERT_TRUE(std::ranges::equal(out, expected)) << name << ' ' << kernels.name << ' ' << sample.name;
        ASSERT_TRUE(decode_with(kernels, codec.kind, out, back).ok());
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(back)), std::as_bytes(std::span(decoded))))
            << name << ' ' << kernels.name << ' ' << sample.name;
      }
    }
  }
}

TEST(Codec, EveryKernelConvertsEveryHalfAlike) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const CodecKind kind : {CodecKind::kFp16, CodecKind::kBf16}) {
    std::vector<float> expected(halves.size());
    ASSERT_TRUE(decode_with(codec_kernels().back(), kind, std::as_bytes(std::span(halves)), expected).ok());
    std::vector<float> values(halves.size());
    ASSERT_TRUE(decode(kind, std::as_bytes(std::span(halves)), values).ok());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(values)), std::as_bytes(std::span(expected))));
    std::vector<std::uint16_t> back(halves.size());
    ASSERT_TRUE(encode({.kind = kind}, values, std::as_writable_bytes(std::span(back))).ok());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      if (!std::isnan(values[i])) {
        ASSERT_EQ(back[i], halves[i]);
      }
    }
  }
}

TEST(Codec, LocalEncodingsOfPiecesJoinToThatOfTheWhole) {
  std::vector<float> values = finite_samples().back().values;
  ASSERT_EQ(values.size(), 1024U);
  for (const char* name : {"none", "fp16", "bf16", "int8", "int4"}) {
    const Codec codec = *parse_codec(name);
    std::vector<std::byte> whole(encoded_size(codec, 1024));
    std::vector<std::byte> pieces(whole.size());
    const std::size_t cut = encoded_size(codec, 384);
    ASSERT_TRUE(encode(codec, values, whole).ok());
    ASSERT_TRUE(encode(codec, std::span(values).first(384), std::span(pieces).first(cut)).ok());
    ASSERT_TRUE(encode(codec, std::span(values).subspan(384), std::span(pieces).subspan(cut)).ok());
    EXPECT_EQ(pieces, whole) << name;
  }
}

}  // namespace
}  // namespace ravnest::codec
