// What a loss is differentiated with respect to: the leaves of its autograd record.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace ravnest::worker {

struct LossLeaves {
  bool reaches_known = false;      // at least one of them
  std::vector<at::Tensor> others;  // each once
};

// The tensors that take a gradient of `loss`, against those of `known`. A worker asks for the gradients of its own
// inputs and parameters only: any other leaf, such as a weight inside of the criterion, would get none and never
// change, and a loss that reaches none of its own trains nothing. Walks the whole record, so it is for a run's first
// pass.
LossLeaves leaves_of(const at::Tensor& loss, std::span<const at::Tensor> known);

}  // namespace ravnest::worker
