// An optimizer that follows a rule.
#pragma once

#include <vector>

#include "ravnest/optim/optimizer.h"
#include "ravnest/optim/rule.h"

namespace ravnest::optim {

class NativeOptimizer final : public Optimizer {
 public:
  // The rule outlives the optimizer. Groups have all options of the rule; with `everything` the only group has all
  // parameters, however many come.
  NativeOptimizer(const Rule& rule, std::vector<ParameterGroup> groups, bool everything);

  std::string_view name() const override { return rule_.name; }
  void step(std::span<const at::Tensor> parameters, std::span<const at::Tensor> gradients) override;
  std::span<ParameterGroup> groups() override { return groups_; }
  std::span<const ParameterGroup> groups() const override { return groups_; }
  std::vector<StateName> state_names() const override;
  OptimizerState state() const override;
  Status load(std::span<const at::Tensor> parameters, const OptimizerState& state) override;

 private:
  void cover(std::size_t parameters);
  void check(std::size_t index, const at::Tensor& parameter, const at::Tensor& gradient) const;
  Status fits(const OptimizerState& state, std::size_t parameters) const;
  Result<Memory> recall(const NamedTensors& tensors, const at::Tensor& parameter, bool fused) const;

  const Rule& rule_;
  std::vector<ParameterGroup> groups_;
  bool everything_;
  std::vector<Memory> memory_;  // by parameter
  std::vector<Slot> slots_;     // of the group at hand; kept for its memory
};

}  // namespace ravnest::optim
