// Dropout whose mask belongs to the operator.
//
// torch's own dropout on the CPU draws one number after the other from the process's generator, which takes a good part
// of a small model's step. With a key per operator (random.h) the mask can be a pure function of (key, element): it
// is computed in vectors, on as many threads as torch uses, and is the same for any number of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ravnest::graph {

// What aten::dropout(input, p, train=true) computes, with a mask by `key` and the element's index, not its place in
// memory; differentiable. For floating tensors on the CPU. 0 <= p <= 1.
at::Tensor keyed_dropout(const at::Tensor& input, double p, std::uint64_t key);

// Writes `scale` for each element that is kept, with probability 1 - p, and 0 for the others. Element i depends on
// (key, i) alone.
void fill_dropout_mask(float* mask, std::int64_t count, double p, float scale, std::uint64_t key);

}  // namespace ravnest::graph
