#include "ravnest/graph/run/pinned_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ravnest::graph {
namespace {

// A tensor that is larger makes the block as large as itself.
constexpr std::int64_t kBlockBytes = 64 << 20;
// Where parts begin: as long as a line of the processor's cache.
constexpr std::int64_t kPartBytes = 64;

std::int64_t part_bytes(std::int64_t elements, at::ScalarType type) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(at::elementSize(type));
  return (bytes + kPartBytes - 1) / kPartBytes * kPartBytes;
}

}  // namespace

bool PinnedMemory::has_room(std::int64_t elements, at::ScalarType type) const {
  return block_.defined() && used_bytes_ + part_bytes(elements, type) <= block_.numel();
}

at::Tensor PinnedMemory::take(std::int64_t elements, at::ScalarType type) {
  const std::int64_t bytes = part_bytes(elements, type);
  if (!has_room(elements, type)) {
    block_ = at::empty({std::max(bytes, kBlockBytes)}, at::device(at::kCPU).dtype(at::kByte).pinned_memory(true));
    used_bytes_ = 0;
  }
  const at::Tensor part = block_.narrow(0, used_bytes_, bytes).view(type).narrow(0, 0, elements);
  used_bytes_ += bytes;
  return part;
}

}  // namespace ravnest::graph
