// Memory of this host that the values of a GPU's tensors pass through.
//
// It is pinned: the GPU copies to and from it by itself, while copies of ordinary memory would hold up what computes.
// Making it is slow, so one block is kept, and handed out in parts. Not thread-safe; one owner.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ravnest::graph {

class PinnedMemory {
 public:
  // Whether that many elements have room in the block, beside what was taken.
  bool has_room(std::int64_t elements, at::ScalarType type) const;
  // A flat tensor without particular values. Where it has no room, a larger block takes the place of the present one;
  // what was taken of that stays as it is.
  at::Tensor take(std::int64_t elements, at::ScalarType type);
  // All that was taken may be taken again: no copy to or from it is under way any more.
  void clear() { used_bytes_ = 0; }
  bool empty() const { return used_bytes_ == 0; }

 private:
  at::Tensor block_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace ravnest::graph
