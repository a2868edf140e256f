// One float as two bytes and back, as IEEE half precision (fp16) and as the upper half of a float32 (bf16).
//
// Both round to nearest, ties to even, and overflow to infinity. A NaN keeps its sign and the upper bits of its
// payload and becomes quiet, exactly as the instructions of F16C do.
#pragma once

#include <bit>
#include <cstdint>

namespace ravnest::codec {

inline constexpr std::uint32_t kSignBit = 0x80000000;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;

// The float without its sign, as bits: ordered as the magnitudes are, with infinity above all numbers and NaN on top.
inline std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & ~kSignBit; }

inline std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & kSignBit) >> 16;
  const std::uint32_t magnitude = bits & ~kSignBit;
  std::uint32_t half = 0;
  if (magnitude > kInfinityBits) {
    half = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  } else if (magnitude >= 0x47800000) {  // 65536; from 65520 on, rounding below arrives at infinity by itself
    half = 0x7C00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal number: only the exponent's offset changes
    half = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  } else {
    // Adding 1/2 moves the last bit of a subnormal half, 2^-24, to the last bit of the float, which rounds for us.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float from_fp16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7FFF;
  std::uint32_t bits = 0;
  if (magnitude > 0x7C00) {
    bits = 0x7FC00000 | (magnitude << 13);
  } else if (magnitude == 0x7C00) {
    bits = kInfinityBits;
  } else if (magnitude >= 0x0400) {
    bits = (magnitude << 13) + 0x38000000;
  } else {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  }
  return std::bit_cast<float>(sign | bits);
}

inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (magnitude_bits(value) > kInfinityBits) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(std::uint16_t upper) { return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16); }

}  // namespace ravnest::codec
