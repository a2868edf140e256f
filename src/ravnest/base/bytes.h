// Little-endian bytes, read with every length checked and written into a growing buffer.
//
// The reader trusts nothing: whatever the bytes and whatever the caller asks for, a read past the end is a kCorrupt
// failure and moves nothing. It does not own the bytes: they must outlive it and the spans that it hands out.
// Not thread-safe; one owner each.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

using ByteSpan = std::span<const std::byte>;

// The bytes of a string; valid for as long as the string is.
inline ByteSpan as_byte_span(std::string_view string) { return std::as_bytes(std::span(string)); }
// The bytes as characters; valid for as long as they are.
inline std::string_view as_string_view(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t remaining() const { return bytes_.size() - position_; }

  Result<std::uint8_t> u8() { return read<std::uint8_t>(); }
  Result<std::uint16_t> u16() { return read<std::uint16_t>(); }
  Result<std::uint32_t> u32() { return read<std::uint32_t>(); }
  Result<std::uint64_t> u64() { return read<std::uint64_t>(); }

  // The next `count` bytes, not copied.
  Result<ByteSpan> bytes(std::uint64_t count) {
    if (count > remaining()) return past_end(count);
    const ByteSpan taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }

  Status skip(std::uint64_t count) { return bytes(count).status(); }

  // Goes to `position` from the start; the end itself is allowed.
  Status seek(std::uint64_t position) {
    if (position > bytes_.size()) return corrupt("position ", position, " is beyond the end at ", bytes_.size());
    position_ = static_cast<std::size_t>(position);
    return {};
  }

 private:
  template <std::unsigned_integral T>
  Result<T> read() {
    if (sizeof(T) > remaining()) return past_end(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  Status past_end(std::uint64_t count) const {
    return corrupt("wanted ", count, " bytes at position ", position_, ", but only ", remaining(), " are left");
  }

  ByteSpan bytes_;
  std::size_t position_ = 0;
};

class ByteWriter {
 public:
  std::size_t size() const { return buffer_.size(); }
  // Valid until the next write.
  ByteSpan bytes() const { return buffer_; }
  // Hands the buffer over; the writer is empty afterwards.
  std::vector<std::byte> take() { return std::exchange(buffer_, {}); }

  void u8(std::uint8_t value) { append(value); }
  void u16(std::uint16_t value) { append(value); }
  void u32(std::uint32_t value) { append(value); }
  void u64(std::uint64_t value) { append(value); }
  // Copies; `data` must not lie in this writer's own buffer.
  void bytes(ByteSpan data) {
    const std::size_t end = size();
    buffer_.resize(end + data.size());
    if (!data.empty()) std::memcpy(buffer_.data() + end, data.data(), data.size());
  }
  void string(std::string_view value) { bytes(as_byte_span(value)); }

  // Writes over bytes that are already there: a length known only at the end. kInvalid outside of them.
  Status patch_u32(std::size_t position, std::uint32_t value) {
    if (position > size() || sizeof value > size() - position) {
      return invalid("a patch of ", sizeof value, " bytes at position ", position, " ends beyond the ", size(),
                     " written");
    }
    std::memcpy(buffer_.data() + position, &value, sizeof value);
    return {};
  }

 private:
  template <std::unsigned_integral T>
  static ByteSpan as_bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
  }
  template <std::unsigned_integral T>
  void append(T value) {
    bytes(as_bytes_of(value));
  }

  std::vector<std::byte> buffer_;
};

}  // namespace ravnest
