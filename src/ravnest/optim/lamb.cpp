// LAMB (You et al. 2020): Adam's direction, with a length that follows the parameter's own.
#include <ATen/ATen.h>

#include <cmath>

#include "ravnest/optim/rule.h"

namespace ravnest::optim {
namespace {

enum : std::size_t { kStep, kMean, kSquare };

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        beta1(numbers(options, "betas")[0]),
        beta2(numbers(options, "betas")[1]),
        eps(number(options, "eps")),
        weight_decay(number(options, "weight_decay")),
        maximize(flag(options, "maximize")) {}

  double lr, beta1, beta2, eps, weight_decay;
  bool maximize;
};

at::Tensor direction_of(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  const double step = advance(counter(memory[kStep], c10::kCPU));
  const at::Tensor gradient = settings.maximize ? slot.gradient.neg() : slot.gradient;
  zeros(memory[kMean], slot.parameter).lerp_(gradient, 1 - settings.beta1);
  multiply(zeros(memory[kSquare], slot.parameter), settings.beta2).addcmul_(gradient, gradient, 1 - settings.beta2);
  at::Tensor scale = memory[kSquare].sqrt().div_(std::sqrt(1 - std::pow(settings.beta2, step))).add_(settings.eps);
  at::Tensor direction = memory[kMean].div(1 - std::pow(settings.beta1, step)).div_(scale);
  if (settings.weight_decay != 0) direction.add_(slot.parameter, settings.weight_decay);
  return direction;
}

void update_one(const Settings& settings, const Slot& slot) {
  const at::Tensor direction = direction_of(settings, slot);
  const at::Tensor length = at::linalg_vector_norm(slot.parameter, 2);
  const at::Tensor stride = at::linalg_vector_norm(direction, 2);
  if (slot.parameter.is_cpu()) {
    const double from = length.item<double>();
    const double to = stride.item<double>();
    slot.parameter.add_(direction, -settings.lr * (from > 0 && to > 0 ? from / to : 1.0));
  } else {
    // Without waiting for the device.
    const at::Tensor ratio = at::where((length > 0).logical_and_(stride > 0), length / stride, at::ones_like(length));
    slot.parameter.addcmul_(direction, ratio, -settings.lr);
  }
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  for (const Slot& slot : slots) update_one(settings, slot);
}

}  // namespace

Rule lamb_rule() {
  return {.name = "LAMB",
          .options = {{"lr", 1e-3, {0}},
                      {"betas", std::vector<double>{0.9, 0.999}, {0, 1, true}},
                      {"eps", 1e-6, {0}},
                      {"weight_decay", 1e-2, {0}},
                      {"maximize", false}},
          .kept = {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}},
          .update = &update};
}

}  // namespace ravnest::optim
