#include <ATen/ATen.h>

#include "ravnest/optim/rule.h"

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

at::Tensor scale_of(const Settings& settings, const Slot& slot, const at::Tensor& gradient) {
  Memory& memory = *slot.memory;
  if (!settings.centered) return memory[kSquare].sqrt().add_(settings.eps);
  at::Tensor& mean = zeros(memory[kMean], slot.parameter);
  mean.lerp_(gradient, 1 - settings.alpha);
  return memory[kSquare].addcmul(mean, mean, -1).sqrt_().add_(settings.eps);
}

void update_one(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  advance(counter(memory[kStep], c10::kCPU));
  const at::Tensor gradient = penalized(slot, settings.maximize, settings.weight_decay);
  multiply(zeros(memory[kSquare], slot.parameter), settings.alpha).addcmul_(gradient, gradient, 1 - settings.alpha);
  const at::Tensor scale = scale_of(settings, slot, gradient);
  if (settings.momentum > 0) {
    at::Tensor& buffer = zeros(memory[kBuffer], slot.parameter);
    multiply(buffer, settings.momentum).addcdiv_(gradient, scale);
    slot.parameter.add_(buffer, -settings.lr);
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
          .kept = {{"step", true}, {"square_avg"}, {"momentum_buffer"}, {"grad_avg"}},
          .update = &update};
}

}  // namespace ravnest::optim
