// LAMB (You et al. 2020): Adam's direction, with a length that follows the parameter's own.
#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"

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

LambPass pass_of(const Settings& settings, double step) {
  return {.moments = {.weight_decay = 0,
                      .mean_share = 1 - settings.beta1,
                      .square_keep = settings.beta2,
                      .square_share = 1 - settings.beta2,
                      .maximize = settings.maximize},
          .weight_decay = settings.weight_decay,
          .correction = 1 - std::pow(settings.beta1, step),
          .root = std::sqrt(1 - std::pow(settings.beta2, step)),
          .eps = settings.eps};
}

// The paper's phi is the identity.
double trust(double parameter, double direction) { return parameter > 0 && direction > 0 ? parameter / direction : 1; }

bool update_in_chunks(const Settings& settings, const LambPass& pass, const Slot& slot) {
  // Added up in their order, whichever thread was first, so that the result is the same every time.
  std::vector<Lengths> parts(chunks_of(slot.parameter));
  const bool done = in_chunks(slot, {kMean, kSquare}, [&](const Chunk& chunk, std::size_t number) {
    parts[number] = lamb_moments(chunk, pass);
  });
  if (!done) return false;
  Lengths sum;
  for (const Lengths& part : parts) {
    sum.parameter += part.parameter;
    sum.direction += part.direction;
  }
  const double stride = -settings.lr * trust(std::sqrt(sum.parameter), std::sqrt(sum.direction));
  return in_chunks(slot, {kMean, kSquare}, [&](const Chunk& chunk, std::size_t) { lamb_apply(chunk, pass, stride); });
}

at::Tensor direction_of(const Settings& settings, const LambPass& pass, const Slot& slot) {
  Memory& memory = *slot.memory;
  const at::Tensor gradient = settings.maximize ? slot.gradient.neg() : slot.gradient;
  memory[kMean].lerp_(gradient, pass.moments.mean_share);
  multiply(memory[kSquare], settings.beta2).addcmul_(gradient, gradient, pass.moments.square_share);
  const at::Tensor scale = memory[kSquare].sqrt().div_(pass.root).add_(settings.eps);
  at::Tensor direction = memory[kMean].div(pass.correction).div_(scale);
  if (settings.weight_decay != 0) direction.add_(slot.parameter, settings.weight_decay);
  return direction;
}

void update_one(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  zeros(memory[kMean], slot.parameter);
  zeros(memory[kSquare], slot.parameter);
  const LambPass pass = pass_of(settings, advance(counter(memory[kStep])));
  if (update_in_chunks(settings, pass, slot)) return;

  const at::Tensor direction = direction_of(settings, pass, slot);
  const at::Tensor from = at::linalg_vector_norm(slot.parameter, 2);
  const at::Tensor to = at::linalg_vector_norm(direction, 2);
  if (slot.parameter.is_cpu()) {
    slot.parameter.add_(direction, -settings.lr * trust(from.item<double>(), to.item<double>()));
  } else {
    // Without waiting for the device.
    const at::Tensor ratio = at::where((from > 0).logical_and_(to > 0), from / to, at::ones_like(from));
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
          .state = {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}},
          .update = &update};
}

}  // namespace ravnest::optim
