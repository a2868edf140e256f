// The ways to compute a CRC-32C, for crc32c.cpp to choose from and for tests to compare.
//
// A kernel works on the running value between two bytes, which is the complement of the sum that crc32c returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ravnest::codec {

struct Crc32cKernel {
  std::string_view name;
  std::uint32_t (*extend)(const std::byte* from, std::size_t size, std::uint32_t state);
};

// Those that this processor can run, the fastest first, the portable one last.
std::vector<Crc32cKernel> crc32c_kernels();

std::uint32_t extend_crc32c_portable(const std::byte* from, std::size_t size, std::uint32_t state);

// x^n modulo the polynomial, its coefficients from bit 31 (x^0) to bit 0 (x^31) as in all of this CRC.
constexpr std::uint32_t crc32c_power(std::size_t n) {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;
  std::uint32_t value = 0x80000000;
  for (std::size_t i = 0; i < n; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  return value;
}

#if defined(__x86_64__)
// Needs SSE4.2 and PCLMULQDQ.
std::uint32_t extend_crc32c_sse42(const std::byte* from, std::size_t size, std::uint32_t state);
// Needs SSE4.2, AVX-512F and VPCLMULQDQ.
std::uint32_t extend_crc32c_avx512(const std::byte* from, std::size_t size, std::uint32_t state);
#endif

}  // namespace ravnest::codec
