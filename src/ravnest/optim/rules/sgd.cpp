#include <ATen/ATen.h>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"
#include "ravnest/optim/rules/fused.h"

namespace ravnest::optim {
namespace {

constexpr std::size_t kBuffer = 0;

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        momentum(number(options, "momentum")),
        dampening(number(options, "dampening")),
        weight_decay(number(options, "weight_decay")),
        nesterov(flag(options, "nesterov")),
        maximize(flag(options, "maximize")) {}

  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
};

bool update_in_chunks(const Settings& settings, const Slot& slot) {
  at::Tensor& buffer = (*slot.memory)[kBuffer];
  const bool first = settings.momentum != 0 && !buffer.defined();
  if (first) buffer = at::empty_like(slot.parameter, at::MemoryFormat::Preserve);
  const SgdPass pass{.weight_decay = settings.weight_decay,
                     .momentum = settings.momentum,
                     .share = 1 - settings.dampening,
                     .lr = settings.lr,
                     .nesterov = settings.nesterov,
                     .maximize = settings.maximize,
                     .first = first};
  if (in_chunks(slot, {kBuffer}, [&](const Chunk& chunk, std::size_t) { sgd_pass(chunk, pass); })) return true;
  if (first) buffer.reset();
  return false;
}

void update_one(const Settings& settings, const Slot& slot) {
  if (update_in_chunks(settings, slot)) return;
  at::Tensor direction = penalized(slot, settings.maximize, settings.weight_decay);
  if (settings.momentum != 0) {
    at::Tensor& buffer = (*slot.memory)[kBuffer];
    if (!buffer.defined()) {
      buffer = direction.clone();
    } else {
      multiply(buffer, settings.momentum).add_(direction, 1 - settings.dampening);
    }
    direction = settings.nesterov ? direction.add(buffer, settings.momentum) : buffer;
  }
  slot.parameter.add_(direction, -settings.lr);
}

void update_at_once(const Settings& settings, std::span<const Slot> slots, bool first) {
  if (first) {
    for (const Slot& slot : slots) (*slot.memory)[kBuffer] = at::empty_like(slot.parameter, at::MemoryFormat::Preserve);
  }
  update_fused(slots, kBuffer, [&](FusedLists& lists) {
    if (settings.momentum == 0) lists.memory[kBuffer].clear();
    at::_fused_sgd_(lists.parameters, lists.gradients, lists.memory[kBuffer], settings.weight_decay, settings.momentum,
                    settings.lr, settings.dampening, settings.nesterov, settings.maximize, first);
  });
}

// The operator fills all buffers or none; torch.optim fails where some parameters have had no gradient before.
void update_at_once(const Settings& settings, std::span<const Slot> slots) {
  const auto is_new = [&](const Slot& slot) { return settings.momentum != 0 && !(*slot.memory)[kBuffer].defined(); };
  const bool first = !slots.empty() && is_new(slots.front());
  if (std::ranges::all_of(slots, [&](const Slot& slot) { return is_new(slot) == first; }))
    return update_at_once(settings, slots, first);
  std::vector<Slot> sorted(slots.begin(), slots.end());
  const auto old = std::stable_partition(sorted.begin(), sorted.end(), is_new);
  update_at_once(settings, {sorted.begin(), old}, true);
  update_at_once(settings, {old, sorted.end()}, false);
}

// Torch 2.13's fused SGD on the CPU leaves most of a half or bfloat16 parameter as it is (pytorch issue 191763).
bool misread(const Slot& slot) {
  return slot.parameter.is_cpu() &&
         (slot.parameter.scalar_type() == at::kHalf || slot.parameter.scalar_type() == at::kBFloat16);
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  std::vector<Slot> at_once;
  for (const Slot& slot : slots) {
    if (fused(options) && !misread(slot)) {
      at_once.push_back(slot);
    } else {
      update_one(settings, slot);
    }
  }
  update_at_once(settings, at_once);
}

Status check(const Options& options) {
  if (flag(options, "nesterov") && (number(options, "momentum") <= 0 || number(options, "dampening") != 0))
    return invalid("SGD: nesterov needs a momentum above 0, and no dampening");
  return {};
}

}  // namespace

Rule sgd_rule() {
  return {.name = "SGD",
          .options = {{"lr", 1e-3, {0}},
                      {"momentum", 0.0, {0}},
                      {"dampening", 0.0},
                      {"weight_decay", 0.0, {0}},
                      {"nesterov", false},
                      {"maximize", false},
                      {"fused", false}},
          .state = {{"momentum_buffer"}},
          .check = &check,
          .update = &update};
}

}  // namespace ravnest::optim
