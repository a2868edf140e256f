#include "ravnest/optim/native.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

namespace ravnest::optim {
namespace {

// The rule's options in `given`, checked; what else is there belongs to a schedule and stays.
Result<Options> checked(const Rule& rule, const Options& present, const Options& given) {
  Options own;
  Options all = present;
  for (const OptionSpec& spec : rule.options) own.emplace(spec.name, present.find(spec.name)->second);
  for (const auto& [name, value] : given) (own.contains(name) ? own : all).insert_or_assign(name, value);
  Result<Options> complete_own = complete(rule.name, rule.options, own);
  if (!complete_own.ok()) return complete_own.status();
  if (rule.check != nullptr) {
    if (Status status = rule.check(*complete_own); !status.ok()) return status;
  }
  for (const auto& [name, value] : *complete_own) all.insert_or_assign(name, value);
  return all;
}

}  // namespace

NativeOptimizer::NativeOptimizer(const Rule& rule, std::vector<ParameterGroup> groups, bool everything)
    : rule_(rule), groups_(std::move(groups)), everything_(everything) {}

void NativeOptimizer::cover(std::size_t parameters) {
  if (memory_.size() == parameters) return;
  TORCH_CHECK(memory_.empty(), name(), ": there were ", memory_.size(), " parameters, now there are ", parameters);
  if (everything_) {
    groups_.front().parameters.resize(parameters);
    std::iota(groups_.front().parameters.begin(), groups_.front().parameters.end(), 0);
  }
  for (const ParameterGroup& group : groups_) {
    for (const std::size_t index : group.parameters)
      TORCH_CHECK(index < parameters, name(), ": a group has parameter ", index, " of ", parameters);
  }
  memory_.resize(parameters);
}

void NativeOptimizer::step(std::span<const at::Tensor> parameters, std::span<const at::Tensor> gradients) {
  TORCH_CHECK(parameters.size() == gradients.size(), name(), ": there are ", parameters.size(), " parameters and ",
              gradients.size(), " gradients");
  const at::NoGradGuard no_grad;
  cover(parameters.size());
  for (const ParameterGroup& group : groups_) {
    slots_.clear();
    for (const std::size_t index : group.parameters) {
      if (!gradients[index].defined()) continue;
      check(index, parameters[index], gradients[index]);
      slots_.push_back({parameters[index], gradients[index], &memory_[index]});
    }
    rule_.update(group.options, slots_);
  }
  slots_.clear();
}

void NativeOptimizer::check(std::size_t index, const at::Tensor& parameter, const at::Tensor& gradient) const {
  TORCH_CHECK(at::isFloatingType(parameter.scalar_type()) && gradient.layout() == at::kStrided, name(), ": parameter ",
              index, " is of ", parameter.scalar_type(), ", its gradient ", gradient.layout(),
              "; only floating-point parameters with dense gradients can be updated");
  TORCH_CHECK(gradient.sizes() == parameter.sizes() && gradient.scalar_type() == parameter.scalar_type(), name(),
              ": the gradient of parameter ", index, " has sizes ", gradient.sizes(), " and dtype ",
              gradient.scalar_type(), ", the parameter ", parameter.sizes(), " and ", parameter.scalar_type());
}

std::vector<StateName> NativeOptimizer::state_names() const {
  std::vector<StateName> names;
  for (const StateTensor& each : rule_.state) names.push_back({std::string(each.name), each.counter});
  return names;
}

OptimizerState NativeOptimizer::state() const {
  OptimizerState state{groups_, std::vector<NamedTensors>(memory_.size())};
  for (std::size_t index = 0; index < memory_.size(); ++index) {
    for (std::size_t i = 0; i < rule_.state.size(); ++i) {
      const at::Tensor& tensor = memory_[index][i];
      if (tensor.defined()) state.tensors[index].emplace(rule_.state[i].name, tensor);
    }
  }
  return state;
}

Status NativeOptimizer::fits(const OptimizerState& state, std::size_t parameters) const {
  if (state.groups.size() != groups_.size())
    return invalid(name(), " has ", groups_.size(), " groups, the state ", state.groups.size());
  if (!memory_.empty() && memory_.size() != parameters)
    return invalid(name(), " has ", memory_.size(), " parameters, not ", parameters);
  if (state.tensors.size() > parameters)
    return invalid("the state is of ", state.tensors.size(), " parameters, there are ", parameters);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t count = everything_ ? parameters : groups_[g].parameters.size();
    if (state.groups[g].parameters.size() != count)
      return invalid("group ", g, " of the state has ", state.groups[g].parameters.size(), " parameters, here it has ",
                     count);
  }
  return {};
}

Result<Memory> NativeOptimizer::recall(const NamedTensors& tensors, const at::Tensor& parameter, bool fused) const {
  Memory memory;
  for (const auto& [key, tensor] : tensors) {
    const auto known = std::ranges::find(rule_.state, std::string_view(key), &StateTensor::name);
    if (known == rule_.state.end()) return invalid(name(), " keeps nothing called ", key);
    at::Tensor& own = memory[static_cast<std::size_t>(known - rule_.state.begin())];
    if (known->counter) {
      if (tensor.numel() != 1) return invalid(key, " of the state is not one number");
      const auto dtype = tensor.scalar_type() == at::kDouble && !fused ? at::kDouble : at::kFloat;
      own = tensor.detach().to(fused ? parameter.device() : c10::Device(c10::kCPU), dtype, false, true).reshape({});
    } else {
      if (tensor.sizes() != parameter.sizes())
        return invalid(key, " of the state has sizes ", tensor.sizes(), ", its parameter ", parameter.sizes());
      own = at::empty_like(parameter, at::MemoryFormat::Preserve).copy_(tensor);
    }
  }
  return memory;
}

Status NativeOptimizer::load(std::span<const at::Tensor> parameters, const OptimizerState& state) {
  const at::NoGradGuard no_grad;
  if (Status status = fits(state, parameters.size()); !status.ok()) return status;
  std::vector<Options> options;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Result<Options> group = checked(rule_, groups_[g].options, state.groups[g].options);
    if (!group.ok()) return group.status().with_context(text("group ", g));
    options.push_back(std::move(group).value());
  }
  std::vector<Memory> memory(parameters.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < state.groups[g].parameters.size(); ++i) {
      const std::size_t index = everything_ ? i : groups_[g].parameters[i];
      if (index >= state.tensors.size()) continue;
      Result<Memory> recalled = recall(state.tensors[index], parameters[index], fused(options[g]));
      if (!recalled.ok()) return recalled.status().with_context(text("parameter ", index));
      memory[index] = std::move(recalled).value();
    }
  }
  cover(parameters.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].options = std::move(options[g]);
  memory_ = std::move(memory);
  return {};
}

}  // namespace ravnest::optim
