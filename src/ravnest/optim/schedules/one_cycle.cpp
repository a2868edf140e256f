#include <cmath>
#include <numbers>
#include <string>

#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {
namespace {

// From one of a group's options to another, until `end`.
struct Phase {
  double end;
  std::string_view from, to;
  std::string_view from_momentum, to_momentum;
};

std::vector<Phase> phases_of(double share, double steps, bool three) {
  const Phase up{share * steps - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"};
  if (!three) return {up, {steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"}};
  return {up,
          {2 * share * steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"},
          {steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"}};
}

struct Place {
  const Phase* phase;
  double done;  // share of the phase
};

Place place_of(const std::vector<Phase>& phases, std::int64_t epoch) {
  const auto step = static_cast<double>(epoch);
  double start = 0;
  for (const Phase& phase : phases) {
    if (step <= phase.end || &phase == &phases.back())
      return {&phase, phase.end == start ? 1 : (step - start) / (phase.end - start)};
    start = phase.end;
  }
  return {};
}

double between(double start, double end, double done, bool cosine) {
  if (!cosine) return (end - start) * done + start;
  return end + (start - end) / 2.0 * (std::cos(std::numbers::pi * done) + 1);
}

void set_momentum(ParameterGroup& group, double momentum) {
  if (has(group.options, "betas")) {
    std::vector<double> betas = numbers(group.options, "betas");
    betas[0] = momentum;
    group.options["betas"] = betas;
  } else {
    group.options["momentum"] = momentum;
  }
}

Result<std::int64_t> steps_of(const Options& options) {
  if (has(options, "total_steps")) return integer(options, "total_steps");
  if (has(options, "epochs") && has(options, "steps_per_epoch"))
    return integer(options, "epochs") * integer(options, "steps_per_epoch");
  return invalid("OneCycleLR needs total_steps, or epochs and steps_per_epoch");
}

// What the cycle goes between, kept in the groups under torch's names.
Status prepare(const Options& options, std::span<ParameterGroup> groups, bool cycles) {
  const auto values = [&](std::string_view name, double otherwise) {
    return per_group("OneCycleLR", options, name, groups.size(), otherwise);
  };
  const auto most = values("max_lr", 0);
  const auto most_momentum = values("max_momentum", 0.95);
  const auto base_momentum = values("base_momentum", 0.85);
  for (const auto* each : {&most, &most_momentum, &base_momentum}) {
    if (!each->ok()) return each->status();
  }
  for (const ParameterGroup& group : groups) {
    if (cycles && !has(group.options, "betas") && !has(group.options, "momentum"))
      return invalid("OneCycleLR: the optimizer has no momentum to cycle; set cycle_momentum to false");
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double initial = (*most)[g] / number(options, "div_factor");
    groups[g].options["initial_lr"] = initial;
    groups[g].options["max_lr"] = (*most)[g];
    groups[g].options["min_lr"] = initial / number(options, "final_div_factor");
    if (!cycles) continue;
    set_momentum(groups[g], (*most_momentum)[g]);
    groups[g].options["max_momentum"] = (*most_momentum)[g];
    groups[g].options["base_momentum"] = (*base_momentum)[g];
  }
  return {};
}

}  // namespace

Result<Form> one_cycle_form(const Options& options, Optimizer& optimizer) {
  const std::string& strategy = word(options, "anneal_strategy");
  if (strategy != "cos" && strategy != "linear")
    return invalid("OneCycleLR: anneal_strategy must be cos or linear, not ", strategy);
  const Result<std::int64_t> steps = steps_of(options);
  if (!steps.ok()) return steps.status();
  const bool cycles = flag(options, "cycle_momentum");
  if (Status status = prepare(options, optimizer.groups(), cycles); !status.ok()) return status;

  const bool cosine = strategy == "cos";
  const std::vector<Phase> phases =
      phases_of(number(options, "pct_start"), static_cast<double>(*steps), flag(options, "three_phase"));
  const auto value = [=](const ParameterGroup& group, std::string_view from, std::string_view to, double done) {
    return between(number(group.options, from), number(group.options, to), done, cosine);
  };
  Form form{.name = "OneCycleLR", .next = [=](const Moment& at, const ParameterGroup& group) {
              const auto [phase, done] = place_of(phases, at.epoch);
              return value(group, phase->from, phase->to, done);
            }};
  if (cycles) {
    form.momentum = [=](const Moment& at, ParameterGroup& group) {
      const auto [phase, done] = place_of(phases, at.epoch);
      set_momentum(group, value(group, phase->from_momentum, phase->to_momentum, done));
    };
  }
  form.last_epoch = *steps;
  return form;
}

}  // namespace ravnest::optim
