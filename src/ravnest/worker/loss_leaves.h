// What a loss is differentiated with respect to: the leaves of its autograd record.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace ravnest::worker {

// The tensors that take a gradient of `loss`, each once, but for those of `known`. A worker asks for the gradients of
// its own inputs and parameters only: any other leaf, such as a weight inside of the criterion, would get none and
// never change. Walks the whole record, so it is for a run's first pass.
std::vector<at::Tensor> other_leaves(const at::Tensor& loss, std::span<const at::Tensor> known);

}  // namespace ravnest::worker
