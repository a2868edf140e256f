#include "ravnest/archive/payload.h"

#include <algorithm>

namespace ravnest::archive {

std::int64_t element_count(const Payload& payload) {
  std::int64_t count = 1;
  for (const std::int64_t size : payload.sizes) count *= size;
  return count;
}

bool is_contiguous(const Payload& payload) {
  if (element_count(payload) == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = payload.sizes.size(); i-- > 0;) {
    if (payload.sizes[i] != 1 && payload.strides[i] != expected) return false;
    expected *= payload.sizes[i];
  }
  return true;
}

bool same_tensor(const Payload& a, const Payload& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
         a.storage_offset == b.storage_offset && element_count(a) > 0;
}

Status check(const Payload& payload) {
  if (payload.storage == nullptr) return corrupt("no storage");
  if (payload.sizes.size() != payload.strides.size()) return corrupt("as many strides as sizes expected");
  if (payload.storage_offset < 0) return corrupt("a negative storage offset");
  if (payload.requires_grad && !is_floating(payload.dtype))
    return corrupt("a gradient is asked for ", dtype_name(payload.dtype), ", which cannot have one");
  std::int64_t last = payload.storage_offset;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < payload.sizes.size(); ++i) {
    if (payload.sizes[i] < 0 || payload.strides[i] < 0) return corrupt("a negative size or stride");
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(count, payload.sizes[i], &count) ||
        __builtin_mul_overflow(std::max<std::int64_t>(payload.sizes[i] - 1, 0), payload.strides[i], &extent) ||
        __builtin_add_overflow(last, extent, &last))
      return corrupt("sizes beyond any memory");
  }
  const auto available = static_cast<std::int64_t>(payload.storage->bytes.size() / item_size(payload.dtype));
  if (count > 0 && last >= available) return corrupt("reaches element ", last, " of a storage of ", available);
  // A parameter gets a gradient of its full size: overlapping strides would let a small file claim any memory.
  if (payload.is_parameter && count > available)
    return unsupported("a parameter whose elements overlap in memory; store it contiguously");
  return {};
}

}  // namespace ravnest::archive
