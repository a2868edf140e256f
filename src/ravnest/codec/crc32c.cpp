#include "ravnest/codec/crc32c.h"

#include <array>
#include <cstring>

#include "ravnest/codec/crc32c_kernels.h"

namespace ravnest::codec {
namespace {

using Table = std::array<std::uint32_t, 256>;

// Table t moves one byte past t further zero bytes: eight bytes then take eight lookups that do not wait for another.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? crc32c_power(32) : 0);
    tables[0][byte] = value;
  }
  for (std::size_t t = 1; t < tables.size(); ++t) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[t - 1][byte];
      tables[t][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

const Crc32cKernel& fastest_crc32c() {
  static const Crc32cKernel kernel = crc32c_kernels().front();
  return kernel;
}

}  // namespace

std::uint32_t extend_crc32c_portable(const std::byte* from, std::size_t size, std::uint32_t state) {
  for (; size >= 8; from += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    word ^= state;
    state = 0;
    for (std::size_t t = 0; t < 8; ++t) state ^= kTables[7 - t][(word >> (8 * t)) & 0xFF];
  }
  for (; size > 0; ++from, --size) {
    state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*from)) & 0xFF];
  }
  return state;
}

std::vector<Crc32cKernel> crc32c_kernels() {
  std::vector<Crc32cKernel> kernels;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool sse42 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  if (sse42 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) {
    kernels.push_back({"avx512", extend_crc32c_avx512});
  }
  if (sse42) kernels.push_back({"sse4.2", extend_crc32c_sse42});
#endif
  kernels.push_back({"portable", extend_crc32c_portable});
  return kernels;
}

std::uint32_t crc32c(ByteSpan bytes, std::uint32_t crc) {
  return ~fastest_crc32c().extend(bytes.data(), bytes.size(), ~crc);
}

}  // namespace ravnest::codec
