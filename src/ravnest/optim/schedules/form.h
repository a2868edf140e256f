// Schedules that are a function of the number of steps and of the present rate.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/optim/schedules/schedule.h"

namespace ravnest::optim {

struct Moment {
  std::int64_t epoch;  // steps done
  bool initial;        // the step that making the schedule is
  std::size_t group;
  double base_lr;
};

struct Form {
  std::string_view name;
  std::function<double(const Moment&, const ParameterGroup&)> next;
  // The same without the recurrence, for a start in the middle of a sequence; where there is none `next` serves.
  std::function<double(const Moment&)> closed = {};
  std::function<void(const Moment&, ParameterGroup&)> momentum = {};
  std::int64_t last_epoch = std::numeric_limits<std::int64_t>::max();
};

class FormSchedule final : public LrSchedule {
 public:
  // Keeps the groups' rates as initial_lr, unless something has done so before.
  FormSchedule(Form form, Optimizer& optimizer);

  std::string_view name() const override { return form_.name; }
  Status step(std::optional<double> metric) override;
  const std::vector<double>& last_lr() const override { return last_lr_; }
  ScheduleState state() const override;
  Status load(const ScheduleState& state) override;

  // For sequences, in torch's own words: undo the step of the construction, do it again, or begin anew.
  void undo() { --epoch_; }
  void redo();
  void begin();

 private:
  void apply(bool initial, bool closed);

  Form form_;
  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  std::vector<double> last_lr_;
  std::int64_t epoch_ = -1;
};

// The rates of all groups.
std::vector<double> rates(const Optimizer& optimizer);

Result<Form> step_form(const Options& options);
Result<Form> multi_step_form(const Options& options);
Result<Form> cosine_form(const Options& options);
Result<Form> linear_form(const Options& options);
// Also prepares the groups.
Result<Form> one_cycle_form(const Options& options, Optimizer& optimizer);
Result<std::unique_ptr<LrSchedule>> plateau_schedule(const Options& options, Optimizer& optimizer);

// An option that is one number, one per group, or `otherwise`.
Result<std::vector<double>> per_group(std::string_view owner, const Options& options, std::string_view name,
                                      std::size_t groups, double otherwise);

}  // namespace ravnest::optim
