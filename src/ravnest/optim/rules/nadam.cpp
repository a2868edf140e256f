#include <ATen/ATen.h>

#include <cmath>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"

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

NadamPass pass_of(const Settings& settings, double step, double product) {
  const double momentum = momentum_at(settings, step);
  const double next_momentum = momentum_at(settings, step + 1);
  return {.moments = {.weight_decay = settings.decoupled ? 0 : settings.weight_decay,
                      .mean_share = 1 - settings.beta1,
                      .square_keep = settings.beta2,
                      .square_share = 1 - settings.beta2,
                      .maximize = settings.maximize},
          .decay = settings.decoupled ? 1 - settings.lr * settings.weight_decay : 1,
          .correction = 1 - std::pow(settings.beta2, step),
          .eps = settings.eps,
          .gradient_stride = -settings.lr * (1.0 - momentum) / (1.0 - product),
          .mean_stride = (-settings.lr * next_momentum) / (1.0 - product * next_momentum)};
}

void update_one(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  const double step = advance(counter(memory[kStep]));
  const double product = multiply_counter(counter(memory[kMomentumProduct], 1), momentum_at(settings, step));
  const at::Tensor& mean = zeros(memory[kMean], slot.parameter);
  const at::Tensor& square = zeros(memory[kSquare], slot.parameter);
  const NadamPass pass = pass_of(settings, step, product);
  if (in_halves(
          slot, {kMean, kSquare}, [&](const Chunk& chunk) { nadam_moments(chunk, pass); },
          [&](const Chunk& chunk) { nadam_apply(chunk, pass); }))
    return;

  if (pass.decay != 1) multiply(slot.parameter, pass.decay);
  const at::Tensor gradient = penalized(slot, settings.maximize, pass.moments.weight_decay);
  mean.lerp_(gradient, pass.moments.mean_share);
  multiply(square, settings.beta2).addcmul_(gradient, gradient, pass.moments.square_share);
  const at::Tensor scale = square.div(pass.correction).sqrt_().add_(settings.eps);
  slot.parameter.addcdiv_(gradient, scale, pass.gradient_stride);
  slot.parameter.addcdiv_(mean, scale, pass.mean_stride);
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
          .state = {{"step", true}, {"mu_product", true}, {"exp_avg"}, {"exp_avg_sq"}},
          .update = &update};
}

}  // namespace ravnest::optim
