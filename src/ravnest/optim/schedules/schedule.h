// Learning rates that change as training goes on, with the values of torch.optim.lr_scheduler to the last bit.
//
// Most of them are recurrences on a group's present rate, as torch's are: so they can be put on top of each other or of
// changes by hand, and their rounding adds up in the same way. Like torch's, they keep what they started from in the
// groups (initial_lr, and OneCycleLR max_lr, min_lr, max_momentum and base_momentum), where it becomes part of the
// optimizer's state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/optim/options.h"

namespace ravnest::optim {

// Where a schedule stands, without its options; `parts` are those of a sequence.
struct ScheduleState {
  Options values;
  std::vector<ScheduleState> parts;
};

// Making one sets the rates of the first step. Call step() after each of the optimizer's. The optimizer outlives its
// schedules; they share its thread.
class LrSchedule {
 public:
  virtual ~LrSchedule() = default;

  virtual std::string_view name() const = 0;

  // Sets the groups' options for the next update. kInvalid, with nothing changed: without a metric where one is needed
  // (ReduceLROnPlateau, and only there), or beyond the last step of OneCycleLR.
  virtual Status step(std::optional<double> metric = std::nullopt) = 0;

  // By group, as this schedule last set or saw them.
  virtual const std::vector<double>& last_lr() const = 0;

  // The rates themselves are part of the optimizer's state: load both.
  virtual ScheduleState state() const = 0;
  virtual Status load(const ScheduleState& state) = 0;
};

// StepLR, MultiStepLR, CosineAnnealingLR, OneCycleLR, LinearLR or ReduceLROnPlateau, in upper or lower case, with the
// options of torch.optim.lr_scheduler. Those which may differ by group (max_lr, min_lr, base_momentum, max_momentum)
// are one number, or one per group. kInvalid as for optimizers.
Result<std::unique_ptr<LrSchedule>> make_schedule(std::string_view name, const Options& options, Optimizer& optimizer);

std::span<const std::string_view> schedule_names();

// LambdaLR: the first rate times what the function says for the number of steps done; one function, or one per group.
Result<std::unique_ptr<LrSchedule>> lambda_schedule(std::vector<std::function<double(std::int64_t)>> factors,
                                                    Optimizer& optimizer);

// SequentialLR: each part in turn, from its milestone on, such as a LinearLR to warm up and then another. The parts
// have been made for the same optimizer, in their order. kInvalid for other than one milestone between two parts each,
// and for parts that need a metric or are sequences.
Result<std::unique_ptr<LrSchedule>> sequence(std::vector<std::unique_ptr<LrSchedule>> parts,
                                             std::vector<std::int64_t> milestones, Optimizer& optimizer);

}  // namespace ravnest::optim
