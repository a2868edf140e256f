// What tests of the wire share: bytes as one buffer, as received, and as hexadecimal text.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/wire/fields.h"
#include "ravnest/wire/message.h"

namespace ravnest::wire {

inline std::string hex(ByteSpan bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const std::byte byte : bytes) {
    result += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    result += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return result;
}

inline std::vector<std::byte> joined(const EncodedMessage& encoded) {
  std::vector<std::byte> bytes;
  for (const Slice& part : encoded.parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  return bytes;
}

// As a transport receives: into one buffer that is aligned to 64.
inline Slice received(ByteSpan bytes) {
  constexpr std::align_val_t kAlign{kAlignment};
  std::shared_ptr<std::byte> block(
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes.size(), 1), kAlign)),
      [](std::byte* b) { ::operator delete (b, std::align_val_t{kAlignment}); });
  std::ranges::copy(bytes, block.get());
  return {{block.get(), bytes.size()}, block};
}

inline Tensor tensor_of(DType dtype, std::vector<std::int64_t> shape, std::size_t bytes, int first = 0) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return {dtype, codec::CodecKind::kNone, std::move(shape), slice_of(std::move(data))};
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.codec == b.codec && a.shape == b.shape && a.order == b.order &&
         std::ranges::equal(a.data.bytes, b.data.bytes);
}

}  // namespace ravnest::wire
