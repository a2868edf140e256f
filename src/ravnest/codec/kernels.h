// The inner loops of the codecs in all the ways there are, for codec.cpp to choose from and for tests to compare: all
// give the same bytes.
//
// Sizes are the caller's matter: `bytes` always points to the encoded size of the values beside it, aligned or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/codec/codec.h"

namespace ravnest::codec {

struct CodecKernels {
  using Encode = void (*)(std::span<const float> values, std::byte* bytes);
  // False if the bytes contradict themselves.
  using Decode = bool (*)(const std::byte* bytes, std::span<float> values);

  std::string_view name;
  Encode encode_fp16;
  Decode decode_fp16;
  Encode encode_bf16;
  Decode decode_bf16;
  Encode encode_int8;
  Decode decode_int8;
  Encode encode_int4;
  Decode decode_int4;
  // Bit i says whether the magnitude of values[i] is at least `least` and at most `most`, as bits of a float with
  // the sign cleared; for 32 values.
  std::uint32_t (*magnitudes_within)(const float* values, std::uint32_t least, std::uint32_t most);
};

// Those that this processor can run, the fastest first, the portable ones last.
std::vector<CodecKernels> codec_kernels();

// Whether `encode` would take them: kInvalid unless the codec exists and `bytes` is the encoded size.
Status check_encode(const Codec& codec, std::size_t elements, std::size_t bytes);

// The same as encode and decode, by the kernels given.
Status encode_with(const CodecKernels& kernels, const Codec& codec, std::span<const float> values,
                   std::span<std::byte> out);
Status decode_with(const CodecKernels& kernels, CodecKind kind, ByteSpan in, std::span<float> out);

void encode_fp16_portable(std::span<const float> values, std::byte* bytes);
bool decode_fp16_portable(const std::byte* bytes, std::span<float> values);
void encode_bf16_portable(std::span<const float> values, std::byte* bytes);
bool decode_bf16_portable(const std::byte* bytes, std::span<float> values);
void encode_int8_portable(std::span<const float> values, std::byte* bytes);
bool decode_int8_portable(const std::byte* bytes, std::span<float> values);
void encode_int4_portable(std::span<const float> values, std::byte* bytes);
bool decode_int4_portable(const std::byte* bytes, std::span<float> values);
std::uint32_t magnitudes_within_portable(const float* values, std::uint32_t least, std::uint32_t most);

#if defined(__x86_64__)
// These need AVX2 and F16C.
void encode_fp16_avx2(std::span<const float> values, std::byte* bytes);
bool decode_fp16_avx2(const std::byte* bytes, std::span<float> values);
void encode_bf16_avx2(std::span<const float> values, std::byte* bytes);
bool decode_bf16_avx2(const std::byte* bytes, std::span<float> values);
void encode_int8_avx2(std::span<const float> values, std::byte* bytes);
bool decode_int8_avx2(const std::byte* bytes, std::span<float> values);
void encode_int4_avx2(std::span<const float> values, std::byte* bytes);
bool decode_int4_avx2(const std::byte* bytes, std::span<float> values);
std::uint32_t magnitudes_within_avx2(const float* values, std::uint32_t least, std::uint32_t most);
#endif

}  // namespace ravnest::codec
