#include "ravnest/codec/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ravnest/codec/half.h"
#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

struct Extent {
  float largest = 0;  // of the finite magnitudes
  bool all_finite = true;
};

Extent extent_of(std::span<const float> values) {
  std::uint32_t largest = 0;
  bool all_finite = true;
  for (const float value : values) {
    const std::uint32_t bits = magnitude_bits(value);
    const bool finite = bits < kInfinityBits;
    all_finite = all_finite && finite;
    largest = std::max(largest, finite ? bits : 0);
  }
  return {std::bit_cast<float>(largest), all_finite};
}

// To nearest, ties to even: from 2^23 on floats have no fraction, so the addition drops it.
int round_to_int(float value) {
  constexpr float kNoFraction = 0x1.8p23F;
  return static_cast<int>((value + kNoFraction) - kNoFraction);
}

int code_of(float value, float scale, int top) {
  const std::uint32_t bits = magnitude_bits(value);
  if (bits > kInfinityBits) return -top - 1;
  if (bits == kInfinityBits) return value > 0 ? top : -top;
  return scale == 0 ? 0 : round_to_int(value / scale);
}

// What the codes of a block stand for, once its scale is known to be one that an encoder writes.
struct Meaning {
  float scale;
  bool all_finite;
  int top;

  static Meaning of(float signed_scale, int top) { return {std::fabs(signed_scale), !std::signbit(signed_scale), top}; }
  // False also for a NaN.
  bool sound() const { return scale <= (all_finite ? largest_scale(top) : largest_scale(top - 1)); }
  bool has(int code) const { return code >= -top || !all_finite; }
  float value(int code) const {
    if (!all_finite && code < -top) return std::numeric_limits<float>::quiet_NaN();
    if (!all_finite && code == top) return std::numeric_limits<float>::infinity();
    if (!all_finite && code == -top) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(code) * scale;
  }
};

int signed_nibble(unsigned nibble) { return static_cast<int>(nibble ^ 8U) - 8; }
int signed_byte(std::byte byte) { return (std::to_integer<int>(byte) ^ 128) - 128; }

template <void (*kEncodeBlock)(std::span<const float>, std::byte*)>
void encode_blocks(std::span<const float> values, std::byte* bytes, std::size_t block, std::size_t encoded_block) {
  for (; !values.empty(); bytes += encoded_block) {
    const std::size_t count = std::min(block, values.size());
    kEncodeBlock(values.first(count), bytes);
    values = values.subspan(count);
  }
}

template <bool (*kDecodeBlock)(const std::byte*, std::span<float>)>
bool decode_blocks(const std::byte* bytes, std::span<float> values, std::size_t block, std::size_t encoded_block) {
  for (; !values.empty(); bytes += encoded_block) {
    const std::size_t count = std::min(block, values.size());
    if (!kDecodeBlock(bytes, values.first(count))) return false;
    values = values.subspan(count);
  }
  return true;
}

}  // namespace

float int8_scale(float largest, int top) {
  float scale = std::min(largest / static_cast<float>(top), largest_scale(top));
  // A subnormal scale has few bits; rounded down it could leave the largest value far beyond the last code.
  if (scale < std::numeric_limits<float>::min() && scale * static_cast<float>(top) < largest) {
    scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) + 1);
  }
  return scale;
}

float int4_scale(float largest, int top) {
  const auto bits = std::bit_cast<std::uint32_t>(largest / static_cast<float>(top));
  constexpr std::uint32_t kUpperHalf = 0xFFFF0000;
  constexpr auto kSmallestNormal = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::min());
  // A bf16 has eight bits. Rounded down, the scale is at most 1/128 too small: the error of half a scale only shrinks,
  // and the largest value, 7.06 scales at most, still rounds to 7. Subnormal scales have fewer bits and round up.
  return std::bit_cast<float>(bits >= kSmallestNormal ? bits & kUpperHalf : (bits + 0xFFFF) & kUpperHalf);
}

void encode_int8_block(std::span<const float> values, std::byte* bytes) {
  const auto [largest, all_finite] = extent_of(values);
  const float scale = int8_scale(largest, all_finite ? kInt8Top : kInt8Top - 1);
  const float signed_scale = all_finite ? scale : -scale;
  std::memcpy(bytes, &signed_scale, kInt8ScaleBytes);
  bytes += kInt8ScaleBytes;
  for (const float value : values) *bytes++ = static_cast<std::byte>(code_of(value, scale, kInt8Top));
}

bool decode_int8_block(const std::byte* bytes, std::span<float> values) {
  float signed_scale = 0;
  std::memcpy(&signed_scale, bytes, kInt8ScaleBytes);
  bytes += kInt8ScaleBytes;
  const Meaning meaning = Meaning::of(signed_scale, kInt8Top);
  if (!meaning.sound()) return false;
  for (float& value : values) {
    const int code = signed_byte(*bytes++);
    if (!meaning.has(code)) return false;
    value = meaning.value(code);
  }
  return true;
}

void encode_int4_block(std::span<const float> values, std::byte* bytes) {
  const auto [largest, all_finite] = extent_of(values);
  const float scale = int4_scale(largest, all_finite ? kInt4Top : kInt4Top - 1);
  const std::uint16_t upper = to_bf16(all_finite ? scale : -scale);
  std::memcpy(bytes, &upper, kInt4ScaleBytes);
  bytes += kInt4ScaleBytes;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const int low = code_of(values[i], scale, kInt4Top);
    const int high = i + 1 < values.size() ? code_of(values[i + 1], scale, kInt4Top) : 0;
    *bytes++ = static_cast<std::byte>((low & 0xF) | ((high & 0xF) << 4));
  }
}

bool decode_int4_block(const std::byte* bytes, std::span<float> values) {
  std::uint16_t upper = 0;
  std::memcpy(&upper, bytes, kInt4ScaleBytes);
  bytes += kInt4ScaleBytes;
  const Meaning meaning = Meaning::of(from_bf16(upper), kInt4Top);
  if (!meaning.sound()) return false;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto both = std::to_integer<unsigned>(*bytes++);
    const int low = signed_nibble(both & 0xF);
    const int high = signed_nibble(both >> 4);
    if (!meaning.has(low) || !meaning.has(high)) return false;
    values[i] = meaning.value(low);
    if (i + 1 < values.size()) {
      values[i + 1] = meaning.value(high);
    } else if (high != 0) {
      return false;
    }
  }
  return true;
}

void encode_int8_portable(std::span<const float> values, std::byte* bytes) {
  encode_blocks<encode_int8_block>(values, bytes, kInt8Block, kInt8Block + kInt8ScaleBytes);
}
bool decode_int8_portable(const std::byte* bytes, std::span<float> values) {
  return decode_blocks<decode_int8_block>(bytes, values, kInt8Block, kInt8Block + kInt8ScaleBytes);
}
void encode_int4_portable(std::span<const float> values, std::byte* bytes) {
  encode_blocks<encode_int4_block>(values, bytes, kInt4Block, kInt4Block / 2 + kInt4ScaleBytes);
}
bool decode_int4_portable(const std::byte* bytes, std::span<float> values) {
  return decode_blocks<decode_int4_block>(bytes, values, kInt4Block, kInt4Block / 2 + kInt4ScaleBytes);
}

}  // namespace ravnest::codec
