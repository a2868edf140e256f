// An optimizer from outside, given as functions.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/optim/optimizer.h"

namespace ravnest::optim {

struct OptimizerCallbacks {
  // Called with the groups as they are now, so that a schedule of ours steers a foreign optimizer too; sees to no_grad
  // itself.
  std::function<void(std::span<const ParameterGroup>, std::span<const at::Tensor>, std::span<const at::Tensor>)> step;
  // May be left out where there is no state; one without groups has those that are here.
  std::function<OptimizerState()> state = {};
  std::function<Status(std::span<const at::Tensor>, const OptimizerState&)> load = {};
};

// What the functions throw passes through. The groups are only carried along: nothing checks or completes them.
class CallbackOptimizer final : public Optimizer {
 public:
  CallbackOptimizer(std::string name, std::vector<ParameterGroup> groups, OptimizerCallbacks callbacks)
      : name_(std::move(name)), groups_(std::move(groups)), callbacks_(std::move(callbacks)) {}

  std::string_view name() const override { return name_; }
  void step(std::span<const at::Tensor> parameters, std::span<const at::Tensor> gradients) override {
    callbacks_.step(groups_, parameters, gradients);
  }
  std::span<ParameterGroup> groups() override { return groups_; }
  std::span<const ParameterGroup> groups() const override { return groups_; }
  std::vector<StateName> state_names() const override { return {}; }
  OptimizerState state() const override {
    OptimizerState state = callbacks_.state ? callbacks_.state() : OptimizerState();
    if (state.groups.empty()) state.groups = groups_;
    return state;
  }
  Status load(std::span<const at::Tensor> parameters, const OptimizerState& state) override {
    if (!groups_.empty() && state.groups.size() != groups_.size())
      return invalid(name_, " has ", groups_.size(), " groups, the state ", state.groups.size());
    if (callbacks_.load) {
      if (Status status = callbacks_.load(parameters, state); !status.ok()) return status;
    }
    if (!groups_.empty()) groups_ = state.groups;
    return {};
  }

 private:
  std::string name_;
  std::vector<ParameterGroup> groups_;
  OptimizerCallbacks callbacks_;
};

}  // namespace ravnest::optim
