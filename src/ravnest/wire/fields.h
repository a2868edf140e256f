// Fields of messages and frames, written and read by one description.
//
// A struct is described once, as a function template `fields(f, value)` that calls `f(value.x)` for each field in
// order. With a FieldWriter this encodes, with a FieldReader it decodes: the two cannot disagree. All numbers are
// little-endian; a string or a list is a u32 count and its elements; an optional is a bool and, where that is 1, its
// value; an enumeration is one byte; a variant is one byte, which of its alternatives it is, and that one's fields.
// Large bytes do not go among the fields but into the payload that follows them, each slice at a multiple of
// kAlignment.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"

namespace ravnest::wire {

inline constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t aligned(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <Number T>
  void operator()(const T& value) {
    writer_.bytes(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  requires std::is_enum_v<T>
  void operator()(const T& value) { writer_.u8(static_cast<std::uint8_t>(value)); }
  void operator()(std::string& value) {
    writer_.u32(static_cast<std::uint32_t>(value.size()));
    writer_.string(value);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    writer_.u32(static_cast<std::uint32_t>(values.size()));
    for (T& value : values) (*this)(value);
  }
  template <class T, std::size_t N>
  void operator()(std::array<T, N>& values) {
    for (T& value : values) (*this)(value);
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& value) {
    writer_.u8(static_cast<std::uint8_t>(value.index()));
    std::visit([this](auto& alternative) { (*this)(alternative); }, value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) { fields(*this, value); }

  void add_payload(Slice slice) { payload_.push_back(std::move(slice)); }
  // The first failure stays.
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const Status& status() const { return status_; }
  const std::vector<Slice>& payload() const { return payload_; }
  ByteWriter& bytes() { return writer_; }

 private:
  ByteWriter writer_;
  std::vector<Slice> payload_;
  Status status_;
};

// After the first failure every read gives zero or nothing, and `status` tells of it: callers check once, at the end.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(ByteSpan bytes, Slice payload = {}) : reader_(bytes), payload_(std::move(payload)) {}

  template <Number T>
  void operator()(T& value) {
    std::array<std::byte, sizeof(T)> bytes{};
    if (const auto taken = read(sizeof(T)); !taken.empty()) std::memcpy(bytes.data(), taken.data(), sizeof(T));
    if constexpr (std::same_as<T, bool>) {
      if (std::to_integer<int>(bytes[0]) > 1)
        fail(corrupt("a byte that must be 0 or 1 is ", std::to_integer<int>(bytes[0])));
      value = bytes[0] == std::byte{1};
    } else {
      value = std::bit_cast<T>(bytes);
    }
  }
  // `highest(T)` is the last of its values, found by argument-dependent lookup.
  template <class T>
  requires std::is_enum_v<T>
  void operator()(T& value) {
    std::uint8_t number = 0;
    (*this)(number);
    if (number > static_cast<std::uint8_t>(highest(T{}))) fail(corrupt("a kind has the unknown number ", int{number}));
    value = status_.ok() ? static_cast<T>(number) : T{};
  }
  void operator()(std::string& value) {
    const std::uint32_t size = count();
    value = as_string_view(read(size));
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    const std::uint32_t size = count();
    values.clear();
    for (std::uint32_t i = 0; i < size && status_.ok(); ++i) (*this)(values.emplace_back());
    if (!status_.ok()) values.clear();
  }
  template <class T, std::size_t N>
  void operator()(std::array<T, N>& values) {
    for (T& value : values) (*this)(value);
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& value) {
    std::uint8_t kind = 0;
    (*this)(kind);
    if (kind >= sizeof...(Ts)) fail(corrupt("a message is of the unknown kind ", int{kind}));
    if (!status_.ok()) return;
    make_empty(value, kind, std::index_sequence_for<Ts...>());
    std::visit([this](auto& alternative) { (*this)(alternative); }, value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    bool there = false;
    (*this)(there);
    value.reset();
    if (there) (*this)(value.emplace());
    if (!status_.ok()) value.reset();
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) {
    if (status_.ok()) fields(*this, value);
  }

  // The next `size` bytes of the payload; none have no owner.
  Slice take_payload(std::uint64_t size) {
    if (size == 0 || !status_.ok()) return {};
    const std::uint64_t begin = aligned(taken_);
    if (begin > payload_.size() || size > payload_.size() - begin) {
      fail(corrupt("a tensor of ", size, " bytes goes beyond the message's end"));
      return {};
    }
    taken_ = begin + size;
    return payload_.part(begin, size);
  }
  bool payload_is_taken() const { return taken_ == payload_.size(); }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  template <class Variant, std::size_t... Is>
  static void make_empty(Variant& value, std::size_t kind, std::index_sequence<Is...>) {
    ((kind == Is ? void(value.template emplace<Is>()) : void()), ...);
  }

  // Every element takes at least a byte, so a short message can not ask for a long list.
  std::uint32_t count() {
    std::uint32_t value = 0;
    (*this)(value);
    if (status_.ok() && value > reader_.remaining()) {
      fail(corrupt("a list of ", value, " elements does not fit into the ", reader_.remaining(), " bytes left"));
    }
    return status_.ok() ? value : 0;
  }

  ByteSpan read(std::size_t size) {
    if (!status_.ok()) return {};
    auto bytes = reader_.bytes(size);
    if (bytes.ok()) return *bytes;
    fail(bytes.status());
    return {};
  }

  ByteReader reader_;
  Slice payload_;
  std::uint64_t taken_ = 0;
  Status status_;
};

}  // namespace ravnest::wire
