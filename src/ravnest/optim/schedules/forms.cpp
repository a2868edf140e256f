// The order of the operations below is that of torch's: another would round differently.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {

using std::numbers::pi;

namespace {

double present(const ParameterGroup& group) { return number(group.options, "lr"); }

}  // namespace

Result<Form> step_form(const Options& options) {
  const std::int64_t size = integer(options, "step_size");
  const double gamma = number(options, "gamma");
  return Form{
      .name = "StepLR",
      .next =
          [=](const Moment& at, const ParameterGroup& group) {
            return at.epoch == 0 || at.epoch % size != 0 ? present(group) : present(group) * gamma;
          },
      .closed = [=](const Moment& at) { return at.base_lr * std::pow(gamma, static_cast<double>(at.epoch / size)); }};
}

Result<Form> multi_step_form(const Options& options) {
  std::map<std::int64_t, int> milestones;
  for (const double milestone : numbers(options, "milestones")) {
    if (milestone != std::floor(milestone))
      return invalid("MultiStepLR: a milestone must be a whole number, not ", milestone);
    ++milestones[static_cast<std::int64_t>(milestone)];
  }
  const double gamma = number(options, "gamma");
  return Form{.name = "MultiStepLR",
              .next =
                  [=](const Moment& at, const ParameterGroup& group) {
                    const auto milestone = milestones.find(at.epoch);
                    if (milestone == milestones.end()) return present(group);
                    return present(group) * std::pow(gamma, milestone->second);
                  },
              .closed =
                  [=](const Moment& at) {
                    int passed = 0;
                    for (const auto& [epoch, count] : milestones) passed += epoch <= at.epoch ? count : 0;
                    return at.base_lr * std::pow(gamma, passed);
                  }};
}

Result<Form> cosine_form(const Options& options) {
  const std::int64_t half = integer(options, "T_max");
  const double length = static_cast<double>(half);
  const double least = number(options, "eta_min");
  return Form{.name = "CosineAnnealingLR",
              .next =
                  [=](const Moment& at, const ParameterGroup& group) {
                    const double lr = present(group);
                    const auto epoch = static_cast<double>(at.epoch);
                    if (at.initial) return lr;
                    // At the bottom there is nothing left to multiply: the first step up is added.
                    if ((at.epoch - 1 - half) % (2 * half) == 0)
                      return lr + (at.base_lr - least) * (1 - std::cos(pi / length)) / 2;
                    return (1 + std::cos(pi * epoch / length)) / (1 + std::cos(pi * (epoch - 1) / length)) *
                               (lr - least) +
                           least;
                  },
              .closed =
                  [=](const Moment& at) {
                    const auto epoch = static_cast<double>(at.epoch);
                    return least + (at.base_lr - least) * (1 + std::cos(pi * epoch / length)) / 2;
                  }};
}

Result<Form> linear_form(const Options& options) {
  const double start = number(options, "start_factor");
  const double end = number(options, "end_factor");
  const std::int64_t steps = integer(options, "total_iters");
  const auto length = static_cast<double>(steps);
  if (start == 0) return invalid("LinearLR: start_factor has to be above 0");
  return Form{.name = "LinearLR",
              .next =
                  [=](const Moment& at, const ParameterGroup& group) {
                    const double lr = present(group);
                    if (at.epoch == 0) return lr * start;
                    if (at.initial || at.epoch > steps) return lr;
                    const auto done = static_cast<double>(at.epoch - 1);
                    return lr * (1.0 + (end - start) / (length * start + done * (end - start)));
                  },
              .closed =
                  [=](const Moment& at) {
                    const auto done = static_cast<double>(std::min(steps, at.epoch));
                    return at.base_lr * (start + (end - start) * done / length);
                  }};
}

}  // namespace ravnest::optim
