#include <ATen/ATen.h>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"
#include "ravnest/optim/rules/fused.h"

namespace ravnest::optim {
namespace {

enum : std::size_t { kStep, kSum };

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        lr_decay(number(options, "lr_decay")),
        weight_decay(number(options, "weight_decay")),
        eps(number(options, "eps")),
        first_sum(number(options, "initial_accumulator_value")),
        maximize(flag(options, "maximize")) {}

  double lr, lr_decay, weight_decay, eps, first_sum;
  bool maximize;
};

void remember(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  if (!memory[kSum].defined())
    memory[kSum] = at::full_like(slot.parameter, settings.first_sum, {}, at::MemoryFormat::Preserve);
}

void update_one(const Settings& settings, const Slot& slot) {
  remember(settings, slot);
  Memory& memory = *slot.memory;
  const double step = advance(counter(memory[kStep]));
  const double lr = settings.lr / (1 + (step - 1) * settings.lr_decay);
  const AdagradPass pass{settings.weight_decay, settings.eps, lr, settings.maximize};
  if (in_halves(
          slot, {kSum}, [&](const Chunk& chunk) { adagrad_moments(chunk, pass); },
          [&](const Chunk& chunk) { adagrad_apply(chunk, pass); }))
    return;
  const at::Tensor gradient = penalized(slot, settings.maximize, settings.weight_decay);
  memory[kSum].addcmul_(gradient, gradient, 1);
  slot.parameter.addcdiv_(gradient, memory[kSum].sqrt().add_(settings.eps), -lr);
}

void update_at_once(const Settings& settings, std::span<const Slot> slots) {
  for (const Slot& slot : slots) {
    remember(settings, slot);
    fused_counter((*slot.memory)[kStep], slot.parameter.device());
  }
  update_fused(slots, kSum, [&](FusedLists& lists) {
    advance_all(lists.memory[kStep]);
    at::_fused_adagrad_(lists.parameters, lists.gradients, lists.memory[kSum], lists.memory[kStep], settings.lr,
                        settings.lr_decay, settings.weight_decay, settings.eps, settings.maximize);
  });
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  if (fused(options)) return update_at_once(settings, slots);
  for (const Slot& slot : slots) update_one(settings, slot);
}

}  // namespace

Rule adagrad_rule() {
  return {.name = "Adagrad",
          .options = {{"lr", 1e-2, {0}},
                      {"lr_decay", 0.0, {0}},
                      {"weight_decay", 0.0, {0}},
                      {"initial_accumulator_value", 0.0, {0}},
                      {"eps", 1e-10, {0}},
                      {"maximize", false},
                      {"fused", false}},
          .state = {{"step", true}, {"sum"}},
          .update = &update};
}

}  // namespace ravnest::optim
