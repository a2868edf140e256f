// Bytes that someone keeps alive: how tensors enter and leave messages without being copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/base/bytes.h"

namespace ravnest {

// `owner` keeps the bytes valid and unchanged for as long as any slice of them exists. An empty owner stands for bytes
// that live for ever. A plain value: copying a slice shares the bytes.
struct Slice {
  ByteSpan bytes;
  std::shared_ptr<const void> owner;

  std::size_t size() const { return bytes.size(); }
  // A part of it, with the same owner; `offset + size` must not go beyond the end.
  Slice part(std::size_t offset, std::size_t size) const { return {bytes.subspan(offset, size), owner}; }
};

// Takes the buffer over.
inline Slice slice_of(std::vector<std::byte> buffer) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(buffer));
  const ByteSpan bytes = *owner;
  return {bytes, std::move(owner)};
}

}  // namespace ravnest
