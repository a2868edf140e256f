// int8 and int4 by eight floats at a time. Only whole blocks of finite values are done here; the rest, rare, is left to
// the code of one block in codec_blocks.cpp.
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "ravnest/codec/blocks.h"
#include "ravnest/codec/half.h"
#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

constexpr std::size_t kLanes = 8;

template <std::size_t kCount>
[[gnu::target("avx2"), gnu::always_inline]] inline std::uint32_t largest_magnitude_bits(const float* values) {
  const __m256i no_sign = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  for (std::size_t at = 0; at < kCount; at += kLanes) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + at));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, no_sign));
  }
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
}

// The codes of 32 values as bytes, in order.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i codes_of_32(const float* values, __m256 scale) {
  const __m256i a = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(values), scale));
  const __m256i b = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(values + kLanes), scale));
  const __m256i c = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(values + 2 * kLanes), scale));
  const __m256i d = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(values + 3 * kLanes), scale));
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  // Packing works within each 128 bits and leaves the fours of bytes as a0 b0 c0 d0 a1 b1 c1 d1.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void store_8_values(__m128i codes, __m256 scale, float* values) {
  _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), scale));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void store_16_values(__m128i codes, __m256 scale, float* values) {
  store_8_values(codes, scale, values);
  store_8_values(_mm_srli_si128(codes, 8), scale, values + kLanes);
}

}  // namespace

[[gnu::target("avx2")]] void encode_int8_avx2(std::span<const float> values, std::byte* bytes) {
  for (; values.size() >= kInt8Block; values = values.subspan(kInt8Block), bytes += kInt8Block + kInt8ScaleBytes) {
    const std::uint32_t largest = largest_magnitude_bits<kInt8Block>(values.data());
    const float scale = largest < kInfinityBits ? int8_scale(std::bit_cast<float>(largest), kInt8Top) : 0;
    if (scale == 0) {
      encode_int8_block(values.first(kInt8Block), bytes);
      continue;
    }
    std::memcpy(bytes, &scale, kInt8ScaleBytes);
    const __m256 scales = _mm256_set1_ps(scale);
    for (std::size_t at = 0; at < kInt8Block; at += 4 * kLanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + kInt8ScaleBytes + at),
                          codes_of_32(values.data() + at, scales));
    }
  }
  encode_int8_portable(values, bytes);
}

[[gnu::target("avx2")]] bool decode_int8_avx2(const std::byte* bytes, std::span<float> values) {
  for (; values.size() >= kInt8Block; values = values.subspan(kInt8Block), bytes += kInt8Block + kInt8ScaleBytes) {
    float scale = 0;
    std::memcpy(&scale, bytes, kInt8ScaleBytes);
    if (std::bit_cast<std::uint32_t>(scale) > std::bit_cast<std::uint32_t>(largest_scale(kInt8Top))) {
      if (!decode_int8_block(bytes, values.first(kInt8Block))) return false;
      continue;
    }
    const __m256 scales = _mm256_set1_ps(scale);
    __m128i least = _mm_setzero_si128();
    for (std::size_t at = 0; at < kInt8Block; at += 2 * kLanes) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + kInt8ScaleBytes + at));
      least = _mm_min_epi8(least, codes);
      store_16_values(codes, scales, values.data() + at);
    }
    if (_mm_movemask_epi8(_mm_cmplt_epi8(least, _mm_set1_epi8(-kInt8Top))) != 0) return false;
  }
  return decode_int8_portable(bytes, values);
}

[[gnu::target("avx2")]] void encode_int4_avx2(std::span<const float> values, std::byte* bytes) {
  for (; values.size() >= kInt4Block; values = values.subspan(kInt4Block), bytes += kInt4Block / 2 + kInt4ScaleBytes) {
    const std::uint32_t largest = largest_magnitude_bits<kInt4Block>(values.data());
    const float scale = largest < kInfinityBits ? int4_scale(std::bit_cast<float>(largest), kInt4Top) : 0;
    if (scale == 0) {
      encode_int4_block(values.first(kInt4Block), bytes);
      continue;
    }
    const std::uint16_t upper = to_bf16(scale);
    std::memcpy(bytes, &upper, kInt4ScaleBytes);
    const __m256i nibbles = _mm256_and_si256(codes_of_32(values.data(), _mm256_set1_ps(scale)), _mm256_set1_epi8(0xF));
    // Of two neighbouring bytes, the first times 1 plus the second times 16.
    const __m256i pairs = _mm256_maddubs_epi16(nibbles, _mm256_set1_epi16(0x1001));
    const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + kInt4ScaleBytes), packed);
  }
  encode_int4_portable(values, bytes);
}

[[gnu::target("avx2")]] bool decode_int4_avx2(const std::byte* bytes, std::span<float> values) {
  const __m128i nibble = _mm_set1_epi8(0xF);
  const __m128i eight = _mm_set1_epi8(8);
  for (; values.size() >= kInt4Block; values = values.subspan(kInt4Block), bytes += kInt4Block / 2 + kInt4ScaleBytes) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, bytes, kInt4ScaleBytes);
    const float scale = from_bf16(upper);
    if (std::bit_cast<std::uint32_t>(scale) > std::bit_cast<std::uint32_t>(largest_scale(kInt4Top))) {
      if (!decode_int4_block(bytes, values.first(kInt4Block))) return false;
      continue;
    }
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + kInt4ScaleBytes));
    // With the upper bit turned over, the codes from -8 to 7 are 0 to 15 in order.
    const __m128i low = _mm_xor_si128(_mm_and_si128(both, nibble), eight);
    const __m128i high = _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(both, 4), nibble), eight);
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(low, high), _mm_setzero_si128())) != 0) return false;
    const __m256 scales = _mm256_set1_ps(scale);
    store_16_values(_mm_sub_epi8(_mm_unpacklo_epi8(low, high), eight), scales, values.data());
    store_16_values(_mm_sub_epi8(_mm_unpackhi_epi8(low, high), eight), scales, values.data() + 2 * kLanes);
  }
  return decode_int4_portable(bytes, values);
}

}  // namespace ravnest::codec
