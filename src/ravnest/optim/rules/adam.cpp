#include <ATen/ATen.h>

#include <cmath>

#include "ravnest/optim/rule.h"
#include "ravnest/optim/rules/chunks.h"
#include "ravnest/optim/rules/fused.h"

namespace ravnest::optim {
namespace {

enum : std::size_t { kStep, kMean, kSquare, kMostSquare };

struct Settings {
  explicit Settings(const Options& options)
      : lr(number(options, "lr")),
        beta1(numbers(options, "betas")[0]),
        beta2(numbers(options, "betas")[1]),
        eps(number(options, "eps")),
        weight_decay(number(options, "weight_decay")),
        amsgrad(flag(options, "amsgrad")),
        maximize(flag(options, "maximize")),
        decoupled(flag(options, "decoupled_weight_decay")) {}

  double lr, beta1, beta2, eps, weight_decay;
  bool amsgrad, maximize, decoupled;
};

void remember(const Settings& settings, const Slot& slot) {
  Memory& memory = *slot.memory;
  zeros(memory[kMean], slot.parameter);
  zeros(memory[kSquare], memory[kMean]);
  if (settings.amsgrad) zeros(memory[kMostSquare], memory[kMean]);
}

// What differs from step to step.
struct Correction {
  Correction(const Settings& settings, double step)
      : root(std::pow(1 - std::pow(settings.beta2, step), 0.5)),
        stride(-(settings.lr / (1 - std::pow(settings.beta1, step)))) {}

  double root, stride;
};

bool update_in_chunks(const Settings& settings, const Correction& correction, const Slot& slot) {
  const AdamPass pass{.moments = {.weight_decay = settings.decoupled ? 0 : settings.weight_decay,
                                  .mean_share = 1 - settings.beta1,
                                  .square_keep = settings.beta2,
                                  .square_share = 1 - settings.beta2,
                                  .maximize = settings.maximize},
                      .decay = settings.decoupled ? 1 - settings.lr * settings.weight_decay : 1,
                      .root = correction.root,
                      .eps = settings.eps,
                      .stride = correction.stride,
                      .amsgrad = settings.amsgrad};
  return in_halves(
      slot, {kMean, kSquare, kMostSquare}, [&](const Chunk& chunk) { adam_moments(chunk, pass); },
      [&](const Chunk& chunk) { adam_apply(chunk, pass); });
}

void update_one(const Settings& settings, const Slot& slot) {
  remember(settings, slot);
  Memory& memory = *slot.memory;
  const Correction correction(settings, advance(counter(memory[kStep])));
  if (update_in_chunks(settings, correction, slot)) return;
  if (settings.decoupled && settings.weight_decay != 0)
    multiply(slot.parameter, 1 - settings.lr * settings.weight_decay);
  const at::Tensor gradient = penalized(slot, settings.maximize, settings.decoupled ? 0 : settings.weight_decay);
  memory[kMean].lerp_(gradient, 1 - settings.beta1);
  multiply(memory[kSquare], settings.beta2).addcmul_(gradient, gradient, 1 - settings.beta2);
  if (settings.amsgrad) at::maximum_out(memory[kMostSquare], memory[kMostSquare], memory[kSquare]);
  const at::Tensor& square = memory[settings.amsgrad ? kMostSquare : kSquare];
  slot.parameter.addcdiv_(memory[kMean], square.sqrt().div_(correction.root).add_(settings.eps), correction.stride);
}

void update_at_once(const Settings& settings, std::span<const Slot> slots) {
  for (const Slot& slot : slots) {
    remember(settings, slot);
    fused_counter((*slot.memory)[kStep], slot.parameter.device());
  }
  update_fused(slots, kMean, [&](FusedLists& lists) {
    if (!settings.amsgrad) lists.memory[kMostSquare].clear();
    advance_all(lists.memory[kStep]);
    const auto operation = [&](const auto& adam) {
      adam(lists.parameters, lists.gradients, lists.memory[kMean], lists.memory[kSquare], lists.memory[kMostSquare],
           lists.memory[kStep], settings.lr, settings.beta1, settings.beta2, settings.weight_decay, settings.eps,
           settings.amsgrad, settings.maximize);
    };
    if (settings.decoupled) {
      operation([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      operation([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    }
  });
}

void update(const Options& options, std::span<const Slot> slots) {
  const Settings settings(options);
  if (fused(options)) return update_at_once(settings, slots);
  for (const Slot& slot : slots) update_one(settings, slot);
}

Rule rule(std::string_view name, double weight_decay, bool decoupled) {
  return {.name = name,
          .options = {{"lr", 1e-3, {0}},
                      {"betas", std::vector<double>{0.9, 0.999}, {0, 1, true}},
                      {"eps", 1e-8, {0}},
                      {"weight_decay", weight_decay, {0}},
                      {"amsgrad", false},
                      {"maximize", false},
                      {"decoupled_weight_decay", decoupled},
                      {"fused", false}},
          .state = {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}},
          .update = &update};
}

Status check_decoupled(const Options& options) {
  if (flag(options, "decoupled_weight_decay")) return {};
  return invalid("AdamW: its weight decay is decoupled; take Adam for an L2 penalty");
}

}  // namespace

Rule adam_rule() { return rule("Adam", 0, false); }

Rule adamw_rule() {
  Rule adamw = rule("AdamW", 1e-2, true);
  adamw.check = &check_decoupled;
  return adamw;
}

}  // namespace ravnest::optim
