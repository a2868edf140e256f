#include <ATen/ATen.h>

#include <cmath>

#include "ravnest/optim/rule.h"

namespace ravnest::optim {
namespace {

enum : std::size_t { kStep, kMomentumProduct, kMean, kSquare };

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        beta1(numbers(options, "betas")[0]),
        beta2(numbers(options, "betas")[1]),
        eps(number(options, "eps")),
        weight_decay(number(options, "weight_decay")),
        momentum_decay(number(options, "momentum_decay")),
        maximize(flag(options, "maximize")),
        decoupled(flag(options, "decoupled_weight_decay")) {}

  double lr, beta1, beta2, eps, weight_decay, momentum_decay;
  bool maximize, decoupled;
};

// Multiplies a counter by what torch would round the factor to, and returns the product.
double multiply_counter(at::Tensor& counter, double factor) {
  if (counter.scalar_type() == at::kDouble) return *counter.mutable_data_ptr<double>() *= factor;
  return *counter.mutable_data_ptr<float>() *= static_cast<float>(factor);
}

double momentum_at(const Settings& settings, double step) {
  return settings.beta1 * (1.0 - 0.5 * std::pow(0.96, step * settings.momentum_decay));
}

void update_one(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  const double step = advance(counter(memory[kStep], c10::kCPU));
  const double momentum = momentum_at(settings, step);
  const double next_momentum = momentum_at(settings, step + 1);
  const double product = multiply_counter(counter(memory[kMomentumProduct], c10::kCPU, 1), momentum);

  if (settings.decoupled && settings.weight_decay != 0)
    multiply(slot.parameter, 1 - settings.lr * settings.weight_decay);
  const at::Tensor gradient = penalized(slot, settings.maximize, settings.decoupled ? 0 : settings.weight_decay);
  zeros(memory[kMean], slot.parameter).lerp_(gradient, 1 - settings.beta1);
  multiply(zeros(memory[kSquare], slot.parameter), settings.beta2).addcmul_(gradient, gradient, 1 - settings.beta2);
  const at::Tensor scale = memory[kSquare].div(1 - std::pow(settings.beta2, step)).sqrt_().add_(settings.eps);
  slot.parameter.addcdiv_(gradient, scale, -settings.lr * (1.0 - momentum) / (1.0 - product));
  slot.parameter.addcdiv_(memory[kMean], scale, (-settings.lr * next_momentum) / (1.0 - product * next_momentum));
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  for (const Slot& slot : slots) update_one(settings, slot);
}

}  // namespace

Rule nadam_rule() {
  return {.name = "NAdam",
          .options = {{"lr", 2e-3, {0}},
                      {"betas", std::vector<double>{0.9, 0.999}, {0, 1, true}},
                      {"eps", 1e-8, {0}},
                      {"weight_decay", 0.0, {0}},
                      {"momentum_decay", 4e-3, {0}},
                      {"decoupled_weight_decay", false},
                      {"maximize", false}},
          .kept = {{"step", true}, {"mu_product", true}, {"exp_avg"}, {"exp_avg_sq"}},
          .update = &update};
}

}  // namespace ravnest::optim
