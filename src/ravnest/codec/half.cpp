#include "ravnest/codec/half.h"

#include <cstring>

#include "ravnest/codec/kernels.h"

namespace ravnest::codec {
namespace {

template <std::uint16_t (*kConvert)(float)>
void encode_each(std::span<const float> values, std::byte* bytes) {
  for (const float value : values) {
    const std::uint16_t half = kConvert(value);
    std::memcpy(bytes, &half, sizeof half);
    bytes += sizeof half;
  }
}

template <float (*kConvert)(std::uint16_t)>
bool decode_each(const std::byte* bytes, std::span<float> values) {
  for (float& value : values) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes, sizeof half);
    bytes += sizeof half;
    value = kConvert(half);
  }
  return true;
}

}  // namespace

void encode_fp16_portable(std::span<const float> values, std::byte* bytes) { encode_each<to_fp16>(values, bytes); }
bool decode_fp16_portable(const std::byte* bytes, std::span<float> values) {
  return decode_each<from_fp16>(bytes, values);
}
void encode_bf16_portable(std::span<const float> values, std::byte* bytes) { encode_each<to_bf16>(values, bytes); }
bool decode_bf16_portable(const std::byte* bytes, std::span<float> values) {
  return decode_each<from_bf16>(bytes, values);
}

}  // namespace ravnest::codec
