// An optimizer whose options others may change while it runs: what they set holds from the next step on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/optim/optimizer.h"

namespace ravnest::train {

// Changes that are on their way; safe from any thread.
class Steering {
 public:
  void set(std::size_t group, std::string name, optim::Option value) {
    const MutexLock lock(mutex_);
    changes_.push_back({group, std::move(name), std::move(value)});
  }
  void apply(optim::Optimizer& optimizer) {
    const MutexLock lock(mutex_);
    for (Change& change : changes_) {
      if (change.group >= optimizer.groups().size()) continue;
      optim::Options& options = optimizer.groups()[change.group].options;
      const auto found = options.find(change.name);
      // A whole number passes for any, as when the optimizer was made.
      if (const auto* whole = std::get_if<std::int64_t>(&change.value);
          whole && found != options.end() && std::holds_alternative<double>(found->second))
        change.value = static_cast<double>(*whole);
      options.insert_or_assign(std::move(change.name), std::move(change.value));
    }
    changes_.clear();
  }

 private:
  struct Change {
    std::size_t group;
    std::string name;
    optim::Option value;
  };

  Mutex mutex_;
  std::vector<Change> changes_ RAVNEST_GUARDED_BY(mutex_);
};

class SteeredOptimizer final : public optim::Optimizer {
 public:
  SteeredOptimizer(std::unique_ptr<optim::Optimizer> own, std::shared_ptr<Steering> steering)
      : own_(std::move(own)), steering_(std::move(steering)) {}

  std::string_view name() const override { return own_->name(); }
  void step(std::span<const at::Tensor> parameters, std::span<const at::Tensor> gradients) override {
    steering_->apply(*own_);
    own_->step(parameters, gradients);
  }
  std::span<optim::ParameterGroup> groups() override { return own_->groups(); }
  std::span<const optim::ParameterGroup> groups() const override { return std::as_const(*own_).groups(); }
  std::vector<optim::StateName> state_names() const override { return own_->state_names(); }
  optim::OptimizerState state() const override { return own_->state(); }
  Status load(std::span<const at::Tensor> parameters, const optim::OptimizerState& state) override {
    return own_->load(parameters, state);
  }

 private:
  std::unique_ptr<optim::Optimizer> own_;
  std::shared_ptr<Steering> steering_;
};

}  // namespace ravnest::train
