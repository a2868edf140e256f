// CRC-32C with the instructions of x86: `crc32` takes eight bytes but three cycles for its result, so either three run
// side by side, or carry-less multiplication folds far more bytes at once and `crc32` sums up only the remainder.
//
// Bits lie in reverse: of 64 bits taken as a polynomial, bit 63 is x^0. The carry-less product of two such words, read
// the same way as 128 bits, is the product of the polynomials times x; the powers below make up for that x.
#include <immintrin.h>

#include <cstring>

#include "ravnest/codec/crc32c_kernels.h"

namespace ravnest::codec {
namespace {

std::uint64_t word_at(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

[[gnu::target("sse4.2")]] std::uint32_t extend_by_words(const std::byte* from, std::size_t size, std::uint32_t state) {
  std::uint64_t wide = state;
  for (; size >= 8; from += 8, size -= 8) wide = _mm_crc32_u64(wide, word_at(from));
  state = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++from, --size) state = _mm_crc32_u8(state, std::to_integer<std::uint8_t>(*from));
  return state;
}

// The state moved past `kBytes` zero bytes: multiplied by x^(8 kBytes). Summing the 64 bits of the product multiplies
// by x^32 more, and the product itself brings one x.
template <std::size_t kBytes>
[[gnu::target("sse4.2,pclmul")]] std::uint64_t past_zeros(std::uint64_t state) {
  static constexpr std::uint32_t kFactor = crc32c_power(8 * kBytes - 33);
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(state)),
                                               _mm_cvtsi64_si128(static_cast<long long>(kFactor)), 0x00);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

// Takes three neighbouring parts of `kPart` bytes at a time, for as long as there are.
template <std::size_t kPart>
[[gnu::target("sse4.2,pclmul")]] std::uint32_t extend_in_threes(const std::byte*& from, std::size_t& size,
                                                                std::uint32_t state) {
  for (; size >= 3 * kPart; from += 3 * kPart, size -= 3 * kPart) {
    std::uint64_t first = state;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t at = 0; at < kPart; at += 8) {
      first = _mm_crc32_u64(first, word_at(from + at));
      second = _mm_crc32_u64(second, word_at(from + kPart + at));
      third = _mm_crc32_u64(third, word_at(from + 2 * kPart + at));
    }
    state = static_cast<std::uint32_t>(past_zeros<2 * kPart>(first) ^ past_zeros<kPart>(second) ^ third);
  }
  return state;
}

// Folding by `kBytes` takes 128 bits to 128 bits that have the same remainder `kBytes` further on: the half that comes
// first in memory is multiplied by x^(8 kBytes + 64), the other by x^(8 kBytes).
template <std::size_t kBytes>
[[gnu::target("avx512f")]] __m512i fold_factors() {
  static constexpr std::uint64_t kFirst = crc32c_power(8 * kBytes + 63);
  static constexpr std::uint64_t kSecond = crc32c_power(8 * kBytes - 1);
  const auto first = static_cast<std::int64_t>(kFirst << 32);
  const auto second = static_cast<std::int64_t>(kSecond << 32);
  return _mm512_set4_epi64(second, first, second, first);
}

[[gnu::target("avx512f,vpclmulqdq"), gnu::always_inline]] inline __m512i fold(__m512i sum, __m512i factors,
                                                                              __m512i next) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, 0x00),
                                   _mm512_clmulepi64_epi128(sum, factors, 0x11), next, kXorOfThree);
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512i load(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

}  // namespace

std::uint32_t extend_crc32c_sse42(const std::byte* from, std::size_t size, std::uint32_t state) {
  state = extend_in_threes<1024>(from, size, state);
  state = extend_in_threes<128>(from, size, state);
  return extend_by_words(from, size, state);
}

[[gnu::target("sse4.2,avx512f,vpclmulqdq")]] std::uint32_t extend_crc32c_avx512(const std::byte* from, std::size_t size,
                                                                                std::uint32_t state) {
  if (size < 256) return extend_crc32c_sse42(from, size, state);
  __m512i a = _mm512_xor_si512(load(from), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  __m512i b = load(from + 64);
  __m512i c = load(from + 128);
  __m512i d = load(from + 192);
  from += 256;
  size -= 256;
  const __m512i by_256 = fold_factors<256>();
  for (; size >= 256; from += 256, size -= 256) {
    a = fold(a, by_256, load(from));
    b = fold(b, by_256, load(from + 64));
    c = fold(c, by_256, load(from + 128));
    d = fold(d, by_256, load(from + 192));
  }
  const __m512i by_64 = fold_factors<64>();
  a = fold(fold(fold(a, by_64, b), by_64, c), by_64, d);
  for (; size >= 64; from += 64, size -= 64) a = fold(a, by_64, load(from));
  std::byte rest[64];
  _mm512_storeu_si512(rest, a);
  return extend_by_words(from, size, extend_by_words(rest, sizeof rest, 0));
}

}  // namespace ravnest::codec
