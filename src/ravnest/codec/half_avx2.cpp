#include <immintrin.h>

#include "ravnest/codec/half.h"
#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

constexpr std::size_t kLanes = 8;

// to_bf16 of eight floats, each in the lower half of 32 bits.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i upper_halves(const float* values) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(static_cast<int>(kInfinityBits)));
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd), 16);
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), is_nan);
}

}  // namespace

[[gnu::target("avx2,f16c")]] void encode_fp16_avx2(std::span<const float> values, std::byte* bytes) {
  std::size_t at = 0;
  for (; at + kLanes <= values.size(); at += kLanes) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(&values[at]), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * at), halves);
  }
  encode_fp16_portable(values.subspan(at), bytes + 2 * at);
}

[[gnu::target("avx2,f16c")]] bool decode_fp16_avx2(const std::byte* bytes, std::span<float> values) {
  std::size_t at = 0;
  for (; at + kLanes <= values.size(); at += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * at));
    _mm256_storeu_ps(&values[at], _mm256_cvtph_ps(halves));
  }
  return decode_fp16_portable(bytes + 2 * at, values.subspan(at));
}

[[gnu::target("avx2")]] void encode_bf16_avx2(std::span<const float> values, std::byte* bytes) {
  std::size_t at = 0;
  for (; at + 2 * kLanes <= values.size(); at += 2 * kLanes) {
    // Packing works within each 128 bits; the permutation puts the quarters back in order.
    const __m256i packed = _mm256_packus_epi32(upper_halves(&values[at]), upper_halves(&values[at + kLanes]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + 2 * at), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  encode_bf16_portable(values.subspan(at), bytes + 2 * at);
}

[[gnu::target("avx2")]] bool decode_bf16_avx2(const std::byte* bytes, std::span<float> values) {
  std::size_t at = 0;
  for (; at + kLanes <= values.size(); at += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * at));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(&values[at]), bits);
  }
  return decode_bf16_portable(bytes + 2 * at, values.subspan(at));
}

}  // namespace ravnest::codec
