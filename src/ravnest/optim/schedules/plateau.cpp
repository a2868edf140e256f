#include <algorithm>
#include <limits>

#include "ravnest/optim/schedules/form.h"

namespace ravnest::optim {
namespace {

struct Patience {
  bool lower_is_better, relative;
  double factor, threshold, eps;
  std::int64_t patience, cooldown;
  std::vector<double> least;  // by group
};

class PlateauSchedule final : public LrSchedule {
 public:
  PlateauSchedule(Patience patience, Optimizer& optimizer)
      : patience_(std::move(patience)), optimizer_(optimizer), last_lr_(rates(optimizer)) {
    const double infinity = std::numeric_limits<double>::infinity();
    best_ = patience_.lower_is_better ? infinity : -infinity;
  }

  std::string_view name() const override { return "ReduceLROnPlateau"; }

  Status step(std::optional<double> metric) override {
    if (!metric) return invalid("ReduceLROnPlateau goes by a metric, such as the validation loss: give it to the step");
    ++epoch_;
    const bool better = is_better(*metric);
    if (better) best_ = *metric;
    bad_epochs_ = better ? 0 : bad_epochs_ + 1;
    if (cooldown_left_ > 0) {
      --cooldown_left_;
      bad_epochs_ = 0;
    }
    if (bad_epochs_ > patience_.patience) {
      reduce();
      cooldown_left_ = patience_.cooldown;
      bad_epochs_ = 0;
    }
    last_lr_ = rates(optimizer_);
    return {};
  }

  const std::vector<double>& last_lr() const override { return last_lr_; }

  ScheduleState state() const override {
    return {{{"last_epoch", epoch_},
             {"best", best_},
             {"num_bad_epochs", bad_epochs_},
             {"cooldown_counter", cooldown_left_},
             {"_last_lr", last_lr_}},
            {}};
  }

  Status load(const ScheduleState& state) override {
    const std::vector<OptionSpec> specs = {{"last_epoch", std::int64_t{0}, {0}, Need::kRequired},
                                           {"best", 0.0, {}, Need::kRequired},
                                           {"num_bad_epochs", std::int64_t{0}, {0}, Need::kRequired},
                                           {"cooldown_counter", std::int64_t{0}, {0}, Need::kRequired},
                                           {"_last_lr", last_lr_, {}, Need::kRequired}};
    const Result<Options> values = complete("the state of ReduceLROnPlateau", specs, state.values);
    if (!values.ok()) return values.status();
    epoch_ = integer(*values, "last_epoch");
    best_ = number(*values, "best");
    bad_epochs_ = integer(*values, "num_bad_epochs");
    cooldown_left_ = integer(*values, "cooldown_counter");
    last_lr_ = numbers(*values, "_last_lr");
    return {};
  }

 private:
  bool is_better(double metric) const {
    if (patience_.lower_is_better)
      return metric < (patience_.relative ? best_ * (1.0 - patience_.threshold) : best_ - patience_.threshold);
    return metric > (patience_.relative ? best_ * (patience_.threshold + 1.0) : best_ + patience_.threshold);
  }

  void reduce() {
    const std::span<ParameterGroup> groups = optimizer_.groups();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const double before = number(groups[g].options, "lr");
      const double after = std::max(before * patience_.factor, patience_.least[g]);
      if (before - after > patience_.eps) groups[g].options["lr"] = after;
    }
  }

  Patience patience_;
  Optimizer& optimizer_;
  std::vector<double> last_lr_;
  double best_;
  std::int64_t epoch_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace

Result<std::unique_ptr<LrSchedule>> plateau_schedule(const Options& options, Optimizer& optimizer) {
  const std::string& mode = word(options, "mode");
  const std::string& threshold_mode = word(options, "threshold_mode");
  if (mode != "min" && mode != "max") return invalid("ReduceLROnPlateau: mode must be min or max, not ", mode);
  if (threshold_mode != "rel" && threshold_mode != "abs")
    return invalid("ReduceLROnPlateau: threshold_mode must be rel or abs, not ", threshold_mode);
  Result<std::vector<double>> least = per_group("ReduceLROnPlateau", options, "min_lr", optimizer.groups().size(), 0);
  if (!least.ok()) return least.status();
  Patience patience{.lower_is_better = mode == "min",
                    .relative = threshold_mode == "rel",
                    .factor = number(options, "factor"),
                    .threshold = number(options, "threshold"),
                    .eps = number(options, "eps"),
                    .patience = integer(options, "patience"),
                    .cooldown = integer(options, "cooldown"),
                    .least = std::move(least).value()};
  return std::unique_ptr<LrSchedule>(std::make_unique<PlateauSchedule>(std::move(patience), optimizer));
}

}  // namespace ravnest::optim
