// What turns gradients into new parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/optim/options.h"

namespace ravnest::optim {

// Parameters that share their options: what torch.optim calls a param group. A schedule changes options such as lr in
// place and keeps its own beside them (initial_lr), under torch's names.
struct ParameterGroup {
  Options options;
  std::vector<std::size_t> parameters;  // indices into what step() is given; each parameter is in one group at most
};

using NamedTensors = std::map<std::string, at::Tensor, std::less<>>;

// All that an optimizer needs to go on as if it had never stopped. The names of options and tensors are those of
// torch.optim, so that this is an optimizer's state_dict but for the numbering: torch counts parameters in the order of
// the groups, here they have the indices of step().
struct OptimizerState {
  std::vector<ParameterGroup> groups;
  std::vector<NamedTensors> tensors;  // by parameter; empty for one that was never updated
  // The same for what is no tensor, which only optimizers from outside keep; may be left empty.
  std::vector<Options> values = {};
};

// Something that an optimizer may keep for a parameter: of its sizes, or one number.
struct StateName {
  std::string name;
  bool counter = false;
};

// Called by one thread at a time. What goes wrong within torch, or in an optimizer that was given from outside, passes
// through as an exception; then some parameters may have been updated and others not.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;

  // One update, in place, without autograd's record. gradients[i] belongs to parameters[i] and has its sizes and dtype;
  // an undefined one leaves its parameter, and its optimizer state, as they are. Gradients are not changed.
  // The i-th parameter is the same one in every call, though its memory may be another.
  virtual void step(std::span<const at::Tensor> parameters, std::span<const at::Tensor> gradients) = 0;

  // Options may be changed between steps, to values that the optimizer would have been made with; the rest may not.
  // A sole group that was made for all parameters has no indices before the first step or load.
  virtual std::span<ParameterGroup> groups() = 0;
  virtual std::span<const ParameterGroup> groups() const = 0;

  // All that it may keep for each parameter; none where that is not known, as of an optimizer from outside.
  virtual std::vector<StateName> state_names() const = 0;
  // The tensors are the optimizer's own: write or copy them before the next step.
  virtual OptimizerState state() const = 0;
  // Takes copies, with the parameters' device and dtype. kInvalid, and nothing is changed, where the state is that of
  // another optimizer or of other parameters.
  virtual Status load(std::span<const at::Tensor> parameters, const OptimizerState& state) = 0;
};

// SGD, Adam, AdamW, NAdam, RMSprop, Adagrad or LAMB, in upper or lower case; options and their defaults are those of
// torch.optim. Each group's own options come before `options`; without groups there is one of all parameters. On the
// CPU the results are torch.optim's to the bit, with the same `fused` (false unless given). kInvalid, with a sentence
// that names what exists, for what is not there or makes no sense.
Result<std::unique_ptr<Optimizer>> make_optimizer(std::string_view name, const Options& options,
                                                  std::vector<ParameterGroup> groups = {});

std::span<const std::string_view> optimizer_names();

}  // namespace ravnest::optim
