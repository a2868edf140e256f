#include "ravnest/optim/rules/fused.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ravnest::optim {
namespace {

at::Tensor like(const at::Tensor& layout, const at::Tensor& tensor) {
  if (tensor.strides() == layout.strides()) return tensor;
  return at::empty_like(layout).copy_(tensor);
}

bool together(const Slot& a, const Slot& b) {
  return a.parameter.scalar_type() == b.parameter.scalar_type() && a.parameter.device() == b.parameter.device();
}

at::Tensor guide_of(const Slot& slot, std::size_t layout) {
  const at::Tensor& state = (*slot.memory)[layout];
  if (state.defined()) return state;
  return slot.parameter.is_non_overlapping_and_dense() ? slot.parameter : at::empty_like(slot.parameter);
}

void add(FusedLists& lists, const Slot& slot, std::size_t layout) {
  const at::Tensor guide = guide_of(slot, layout);
  lists.parameters.push_back(like(guide, slot.parameter));
  lists.gradients.push_back(like(guide, slot.gradient));
  for (std::size_t i = 0; i < lists.memory.size(); ++i) {
    const at::Tensor& tensor = (*slot.memory)[i];
    if (tensor.defined()) lists.memory[i].push_back(tensor);
  }
}

void run(std::span<const Slot> slots, std::size_t layout, const std::function<void(FusedLists&)>& update) {
  FusedLists lists;
  for (const Slot& slot : slots) add(lists, slot, layout);
  update(lists);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!lists.parameters[i].is_same(slots[i].parameter)) slots[i].parameter.copy_(lists.parameters[i]);
  }
}

}  // namespace

void update_fused(std::span<const Slot> slots, std::size_t layout, const std::function<void(FusedLists&)>& update) {
  if (slots.empty()) return;
  if (std::ranges::all_of(slots, [&](const Slot& slot) { return together(slot, slots.front()); }))
    return run(slots, layout, update);
  std::vector<Slot> left(slots.begin(), slots.end());
  while (!left.empty()) {
    const Slot first = left.front();
    const auto rest =
        std::stable_partition(left.begin(), left.end(), [&](const Slot& s) { return together(s, first); });
    run({left.begin(), rest}, layout, update);
    left.erase(left.begin(), rest);
  }
}

void advance_all(std::span<at::Tensor> counters) {
  if (counters.empty()) return;
  if (!counters.front().is_cpu()) return at::_foreach_add_({counters.data(), counters.size()}, 1);
  for (at::Tensor& counter : counters) advance(counter);
}

}  // namespace ravnest::optim
