#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {

std::vector<double> rates(const Optimizer& optimizer) {
  std::vector<double> all;
  for (const ParameterGroup& group : optimizer.groups()) all.push_back(number(group.options, "lr"));
  return all;
}

FormSchedule::FormSchedule(Form form, Optimizer& optimizer) : form_(std::move(form)), optimizer_(optimizer) {
  for (ParameterGroup& group : optimizer_.groups()) {
    group.options.try_emplace("initial_lr", number(group.options, "lr"));
    base_lrs_.push_back(number(group.options, "initial_lr"));
  }
  redo();
}

void FormSchedule::redo() {
  ++epoch_;
  apply(true, false);
}

void FormSchedule::begin() {
  epoch_ = 0;
  apply(false, true);
}

Status FormSchedule::step(std::optional<double> metric) {
  if (metric) return invalid(name(), " takes no metric");
  if (epoch_ >= form_.last_epoch)
    return invalid(name(), " was made for ", form_.last_epoch, " steps, and this is one more");
  ++epoch_;
  apply(false, false);
  return {};
}

void FormSchedule::apply(bool initial, bool closed) {
  const std::span<ParameterGroup> groups = optimizer_.groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Moment moment{epoch_, initial, g, base_lrs_[g]};
    const double lr = closed && form_.closed ? form_.closed(moment) : form_.next(moment, groups[g]);
    if (form_.momentum) form_.momentum(moment, groups[g]);
    groups[g].options["lr"] = lr;
  }
  last_lr_ = rates(optimizer_);
}

ScheduleState FormSchedule::state() const {
  return {{{"last_epoch", epoch_}, {"base_lrs", base_lrs_}, {"_last_lr", last_lr_}}, {}};
}

Status FormSchedule::load(const ScheduleState& state) {
  const std::vector<OptionSpec> specs = {{"last_epoch", std::int64_t{0}, {-1}, Need::kRequired},
                                         {"base_lrs", base_lrs_, {}, Need::kRequired},
                                         {"_last_lr", last_lr_, {}, Need::kRequired}};
  const Result<Options> values = complete(text("the state of ", name()), specs, state.values);
  if (!values.ok()) return values.status();
  epoch_ = integer(*values, "last_epoch");
  base_lrs_ = numbers(*values, "base_lrs");
  last_lr_ = numbers(*values, "_last_lr");
  return {};
}

Result<std::vector<double>> per_group(std::string_view owner, const Options& options, std::string_view name,
                                      std::size_t groups, double otherwise) {
  std::vector<double> values = has(options, name) ? numbers(options, name) : std::vector<double>{otherwise};
  if (values.size() == 1) values.resize(groups, values.front());
  if (values.size() != groups)
    return invalid(owner, ": ", name, " has ", values.size(), " numbers for ", groups, " groups");
  return values;
}

Result<std::unique_ptr<LrSchedule>> lambda_schedule(std::vector<std::function<double(std::int64_t)>> factors,
                                                    Optimizer& optimizer) {
  const std::size_t groups = optimizer.groups().size();
  if (factors.size() == 1) factors.resize(groups, factors.front());
  if (factors.size() != groups) return invalid("LambdaLR has ", factors.size(), " functions for ", groups, " groups");
  Form form{.name = "LambdaLR", .next = [factors = std::move(factors)](const Moment& at, const ParameterGroup&) {
              return at.base_lr * factors[at.group](at.epoch);
            }};
  return std::unique_ptr<LrSchedule>(std::make_unique<FormSchedule>(std::move(form), optimizer));
}

}  // namespace ravnest::optim
