// Whether root and leaf have the same labels for a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace ravnest::train {

// Of types, shapes and values; never 0, which stands for no labels. The same on every machine.
std::uint64_t label_digest(std::span<const at::Tensor> labels);

}  // namespace ravnest::train
