#include <ATen/ATen.h>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"

namespace ravnest::optim {
namespace {

enum : std::size_t { kStep, kSquare, kBuffer, kMean };

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        alpha(number(options, "alpha")),
        eps(number(options, "eps")),
        weight_decay(number(options, "weight_decay")),
        momentum(number(options, "momentum")),
        centered(flag(options, "centered")),
        maximize(flag(options, "maximize")) {}

  double lr, alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};

at::Tensor scale_of(const Settings& settings, const Memory& memory, const at::Tensor& gradient) {
  if (!settings.centered) return memory[kSquare].sqrt().add_(settings.eps);
  memory[kMean].lerp_(gradient, 1 - settings.alpha);
  return memory[kSquare].addcmul(memory[kMean], memory[kMean], -1).sqrt_().add_(settings.eps);
}

void remember(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  zeros(memory[kSquare], slot.parameter);
  if (settings.momentum > 0) zeros(memory[kBuffer], slot.parameter);
  if (settings.centered) zeros(memory[kMean], slot.parameter);
}

bool update_in_chunks(const Settings& settings, const Slot& slot) {
  const RmspropPass pass{.weight_decay = settings.weight_decay,
                         .keep = settings.alpha,
                         .share = 1 - settings.alpha,
                         .eps = settings.eps,
                         .momentum = settings.momentum,
                         .lr = settings.lr,
                         .centered = settings.centered,
                         .maximize = settings.maximize};
  return in_halves(
      slot, {kSquare, kBuffer, kMean}, [&](const Chunk& chunk) { rmsprop_moments(chunk, pass); },
      [&](const Chunk& chunk) { rmsprop_apply(chunk, pass); });
}

void update_one(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  advance(counter(memory[kStep]));
  remember(settings, slot);
  if (update_in_chunks(settings, slot)) return;
  const at::Tensor gradient = penalized(slot, settings.maximize, settings.weight_decay);
  multiply(memory[kSquare], settings.alpha).addcmul_(gradient, gradient, 1 - settings.alpha);
  const at::Tensor scale = scale_of(settings, memory, gradient);
  if (settings.momentum > 0) {
    multiply(memory[kBuffer], settings.momentum).addcdiv_(gradient, scale);
    slot.parameter.add_(memory[kBuffer], -settings.lr);
  } else {
    slot.parameter.addcdiv_(gradient, scale, -settings.lr);
  }
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  for (const Slot& slot : slots) update_one(settings, slot);
}

}  // namespace

Rule rmsprop_rule() {
  return {.name = "RMSprop",
          .options = {{"lr", 1e-2, {0}},
                      {"alpha", 0.99, {0}},
                      {"eps", 1e-8, {0}},
                      {"weight_decay", 0.0, {0}},
                      {"momentum", 0.0, {0}},
                      {"centered", false},
                      {"maximize", false}},
          .state = {{"step", true}, {"square_avg"}, {"momentum_buffer"}, {"grad_avg"}},
          .update = &update};
}

}  // namespace ravnest::optim
