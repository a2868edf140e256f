// Blocks of small integers with one scale: int8 and int4, one block at a time.
//
// A value is code * scale, with codes from -top to top. Top is 127 for int8 and 7 for int4. A block that holds anything
// not finite has the sign bit of its scale set and gives up the outermost codes: -top - 1 is NaN, -top and top are the
// infinities, and numbers reach from -(top - 1) to top - 1.
#pragma once

#include <bit>
#include <cstddef>
#include <limits>
#include <span>

namespace ravnest::codec {

inline constexpr int kInt8Top = 127;
inline constexpr int kInt4Top = 7;
inline constexpr std::size_t kInt8Block = 128;
inline constexpr std::size_t kInt4Block = 32;
inline constexpr std::size_t kInt8ScaleBytes = 4;  // a float32
inline constexpr std::size_t kInt4ScaleBytes = 2;  // a bf16

// The largest scale that makes a finite number of every code up to `top`.
constexpr float largest_scale(int top) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  float scale = kLargest / static_cast<float>(top);
  while (static_cast<double>(scale) * top > static_cast<double>(kLargest)) {
    scale = std::bit_cast<float>(std::bit_cast<unsigned>(scale) - 1);
  }
  return scale;
}

// The scale for codes up to `top` where `largest` is the largest finite magnitude: 0 only if that is 0, or for int4 so
// close that the bound does not tell them apart. No value divided by it rounds to more than `top`.
float int8_scale(float largest, int top);
float int4_scale(float largest, int top);

// One block of at most kInt8Block or kInt4Block values; `bytes` has room for the scale and the codes.
void encode_int8_block(std::span<const float> values, std::byte* bytes);
void encode_int4_block(std::span<const float> values, std::byte* bytes);
// False if no encoder writes such a block.
bool decode_int8_block(const std::byte* bytes, std::span<float> values);
bool decode_int4_block(const std::byte* bytes, std::span<float> values);

}  // namespace ravnest::codec
