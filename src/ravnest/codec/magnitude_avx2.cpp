#include <immintrin.h>

#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

// Signed comparison does: without the sign bit, all are positive.
[[gnu::target("avx2"), gnu::always_inline]] inline std::uint32_t outside(const float* values, __m256i least,
                                                                         __m256i most) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  const __m256i off = _mm256_or_si256(_mm256_cmpgt_epi32(least, magnitude), _mm256_cmpgt_epi32(magnitude, most));
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(off)));
}

}  // namespace

[[gnu::target("avx2")]] std::uint32_t magnitudes_within_avx2(const float* values, std::uint32_t least,
                                                             std::uint32_t most) {
  const __m256i from = _mm256_set1_epi32(static_cast<int>(least));
  const __m256i to = _mm256_set1_epi32(static_cast<int>(most));
  return ~(outside(values, from, to) | outside(values + 8, from, to) << 8 | outside(values + 16, from, to) << 16 |
           outside(values + 24, from, to) << 24);
}

}  // namespace ravnest::codec
