// Slots, as torch's fused operators want them.
//
// These operators take lists of one device and dtype, and walk through memory without a look at strides: a parameter,
// its gradient and its optimizer state have to be laid out alike. What is not is copied there, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "ravnest/optim/rule.h"

namespace ravnest::optim {

struct FusedLists {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::array<std::vector<at::Tensor>, std::tuple_size_v<Memory>> memory;  // empty for what no slot keeps
};

// Calls `update` for each device and dtype. A slot's tensors are laid out as what `layout` keeps for it, or as the
// parameter where that is undefined.
void update_fused(std::span<const Slot> slots, std::size_t layout, const std::function<void(FusedLists&)>& update);

// One more step on all of the counters, wherever they are.
void advance_all(std::span<at::Tensor> counters);

}  // namespace ravnest::optim
