#include <algorithm>

#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {
namespace {

const std::vector<double> kByGroup;  // a list of any length

struct Kind {
  std::string_view name;
  std::vector<OptionSpec> options;
  Result<std::unique_ptr<LrSchedule>> (*make)(const Options& options, Optimizer& optimizer);
};

Result<std::unique_ptr<LrSchedule>> with_form(Result<Form> form, Optimizer& optimizer) {
  if (!form.ok()) return form.status();
  return std::unique_ptr<LrSchedule>(std::make_unique<FormSchedule>(std::move(form).value(), optimizer));
}

Kind step_kind() {
  return {"StepLR",
          {{"step_size", std::int64_t{1}, {1}, Need::kRequired}, {"gamma", 0.1}},
          [](const Options& options, Optimizer& optimizer) { return with_form(step_form(options), optimizer); }};
}

Kind multi_step_kind() {
  return {"MultiStepLR",
          {{"milestones", kByGroup, {0}, Need::kRequired}, {"gamma", 0.1}},
          [](const Options& options, Optimizer& optimizer) { return with_form(multi_step_form(options), optimizer); }};
}

Kind cosine_kind() {
  return {"CosineAnnealingLR",
          {{"T_max", std::int64_t{1}, {1}, Need::kRequired}, {"eta_min", 0.0}},
          [](const Options& options, Optimizer& optimizer) { return with_form(cosine_form(options), optimizer); }};
}

Kind linear_kind() {
  return {"LinearLR",
          {{"start_factor", 1.0 / 3, {0, 1}}, {"end_factor", 1.0, {0, 1}}, {"total_iters", std::int64_t{5}, {1}}},
          [](const Options& options, Optimizer& optimizer) { return with_form(linear_form(options), optimizer); }};
}

Kind one_cycle_kind() {
  return {"OneCycleLR",
          {{"max_lr", kByGroup, {0}, Need::kRequired},
           {"total_steps", std::int64_t{1}, {1}, Need::kAbsent},
           {"epochs", std::int64_t{1}, {1}, Need::kAbsent},
           {"steps_per_epoch", std::int64_t{1}, {1}, Need::kAbsent},
           {"pct_start", 0.3, {0, 1}},
           {"anneal_strategy", std::string("cos")},
           {"cycle_momentum", true},
           {"base_momentum", kByGroup, {0, 1}, Need::kAbsent},
           {"max_momentum", kByGroup, {0, 1}, Need::kAbsent},
           {"div_factor", 25.0, {1}},
           {"final_div_factor", 1e4, {1}},
           {"three_phase", false}},
          [](const Options& options, Optimizer& optimizer) {
            return with_form(one_cycle_form(options, optimizer), optimizer);
          }};
}

Kind plateau_kind() {
  return {"ReduceLROnPlateau",
          {{"mode", std::string("min")},
           {"factor", 0.1, {0, 1, true}},
           {"patience", std::int64_t{10}, {0}},
           {"threshold", 1e-4},
           {"threshold_mode", std::string("rel")},
           {"cooldown", std::int64_t{0}, {0}},
           {"min_lr", kByGroup, {0}, Need::kAbsent},
           {"eps", 1e-8, {0}}},
          &plateau_schedule};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {step_kind(),      multi_step_kind(), cosine_kind(),
                                        one_cycle_kind(), linear_kind(),     plateau_kind()};
  return all;
}

}  // namespace

std::span<const std::string_view> schedule_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Kind& kind : kinds()) all.push_back(kind.name);
    return all;
  }();
  return names;
}

Result<std::unique_ptr<LrSchedule>> make_schedule(std::string_view name, const Options& options, Optimizer& optimizer) {
  const auto kind = std::ranges::find_if(kinds(), [&](const Kind& each) { return same_name(each.name, name); });
  if (kind == kinds().end()) return invalid("there is no schedule ", name, "; there are ", listed(schedule_names()));
  const Result<Options> all = complete(kind->name, kind->options, options);
  if (!all.ok()) return all.status();
  return kind->make(*all, optimizer);
}

}  // namespace ravnest::optim
