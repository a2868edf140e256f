#include <algorithm>

#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {
namespace {

class Sequence final : public LrSchedule {
 public:
  Sequence(std::vector<std::unique_ptr<FormSchedule>> parts, std::vector<std::int64_t> milestones, Optimizer& optimizer)
      : parts_(std::move(parts)), milestones_(std::move(milestones)) {
    for (ParameterGroup& group : optimizer.groups()) group.options["lr"] = number(group.options, "initial_lr");
    // Each part did its first step when it was made; only the first part's counts, from the first rates.
    for (const auto& part : parts_) part->undo();
    parts_[turn()]->redo();
    last_lr_ = parts_[turn()]->last_lr();
  }

  std::string_view name() const override { return "SequentialLR"; }

  Status step(std::optional<double> metric) override {
    ++epoch_;
    const std::size_t now = turn();
    if (now > 0 && milestones_[now - 1] == epoch_) {
      parts_[now]->begin();
    } else if (Status status = parts_[now]->step(metric); !status.ok()) {
      --epoch_;
      return status;
    }
    last_lr_ = parts_[now]->last_lr();
    return {};
  }

  const std::vector<double>& last_lr() const override { return last_lr_; }

  ScheduleState state() const override {
    ScheduleState state{{{"last_epoch", epoch_}, {"_last_lr", last_lr_}}, {}};
    for (const auto& part : parts_) state.parts.push_back(part->state());
    return state;
  }

  Status load(const ScheduleState& state) override {
    const std::vector<OptionSpec> specs = {{"last_epoch", std::int64_t{0}, {0}, Need::kRequired},
                                           {"_last_lr", last_lr_, {}, Need::kRequired}};
    const Result<Options> values = complete("the state of SequentialLR", specs, state.values);
    if (!values.ok()) return values.status();
    if (state.parts.size() != parts_.size())
      return invalid("the state of SequentialLR has ", state.parts.size(), " parts, not ", parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (Status status = parts_[i]->load(state.parts[i]); !status.ok()) return status;
    }
    epoch_ = integer(*values, "last_epoch");
    last_lr_ = numbers(*values, "_last_lr");
    return {};
  }

 private:
  std::size_t turn() const {
    return static_cast<std::size_t>(std::ranges::upper_bound(milestones_, epoch_) - milestones_.begin());
  }

  std::vector<std::unique_ptr<FormSchedule>> parts_;
  std::vector<std::int64_t> milestones_;
  std::vector<double> last_lr_;
  std::int64_t epoch_ = 0;
};

}  // namespace

Result<std::unique_ptr<LrSchedule>> sequence(std::vector<std::unique_ptr<LrSchedule>> parts,
                                             std::vector<std::int64_t> milestones, Optimizer& optimizer) {
  if (parts.empty()) return invalid("SequentialLR has no parts");
  if (milestones.size() + 1 != parts.size())
    return invalid("SequentialLR has ", parts.size(), " parts and ", milestones.size(),
                   " milestones; there is one between two parts each");
  if (!std::ranges::is_sorted(milestones)) return invalid("SequentialLR: the milestones are out of order");
  std::vector<std::unique_ptr<FormSchedule>> forms;
  for (std::unique_ptr<LrSchedule>& part : parts) {
    auto* form = dynamic_cast<FormSchedule*>(part.get());
    if (form == nullptr) return invalid(part->name(), " cannot be a part of SequentialLR");
    static_cast<void>(part.release());
    forms.emplace_back(form);
  }
  return std::unique_ptr<LrSchedule>(std::make_unique<Sequence>(std::move(forms), std::move(milestones), optimizer));
}

}  // namespace ravnest::optim
