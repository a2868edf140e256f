#include "ravnest/archive/elements.h"

#include <cstring>
#include <vector>

namespace ravnest::archive {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Goes to the next index but for the last dimension; false behind the last one.
bool advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& sizes) {
  for (std::size_t d = sizes.size() - 1; d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace

std::uint64_t byte_count(const Payload& payload) {
  return static_cast<std::uint64_t>(element_count(payload)) * item_size(payload.dtype);
}

Status feed_elements(const Payload& payload, const Sink& sink) {
  const std::size_t item = item_size(payload.dtype);
  if (element_count(payload) == 0) return {};
  const ByteSpan storage = payload.storage->bytes;
  if (is_contiguous(payload)) return sink(storage.subspan(payload.storage_offset * item, byte_count(payload)));

  // Not contiguous, so that there is at least one dimension.
  std::vector<std::byte> block(kBlockBytes / item * item);
  std::size_t filled = 0;
  std::vector<std::int64_t> index(payload.sizes.size(), 0);
  do {
    std::int64_t at = payload.storage_offset;
    for (std::size_t d = 0; d + 1 < index.size(); ++d) at += index[d] * payload.strides[d];
    for (std::int64_t i = 0; i < payload.sizes.back(); ++i) {
      std::memcpy(block.data() + filled, storage.data() + (at + i * payload.strides.back()) * item, item);
      filled += item;
      if (filled < block.size()) continue;
      if (Status status = sink(block); !status.ok()) return status;
      filled = 0;
    }
  } while (advance(index, payload.sizes));
  return filled == 0 ? Status() : sink(ByteSpan(block).first(filled));
}

}  // namespace ravnest::archive
