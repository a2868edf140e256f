// What a holder of (a part of) a model has that a checkpoint keeps: tensors and what the optimizer keeps for them,
// captured as a Part and restored from one. One pair of functions for a stage of a pipeline and for a rank.
//
// Tensors are known by the names that the model has for them; an optimizer's numbers of parameters stay here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/optim/optimizer.h"

namespace ravnest::checkpoint {

// A criterion, say, or gradients that wait for their update: tensors by name, on any device.
using RecordTensors = std::vector<std::pair<std::string, at::Tensor>>;
archive::NamedPayloads copied(const RecordTensors& tensors);

// What of an engine a part has.
struct TensorNames {
  std::set<std::string> weights;  // keys of the state dict
  std::set<std::string> buffers;  // others that training writes
};
TensorNames tensor_names(const graph::Engine& engine);

// For one thread, the one that steps the optimizer. The engine outlives it.
class PartState {
 public:
  // `parameters` are those that are trained, in the optimizer's order, by the engine's own tensors.
  PartState(const graph::Engine& engine, std::span<const at::Tensor> parameters);

  // The name of each parameter; of tied names the first.
  const std::vector<std::string>& names() const { return names_; }

  // Fills in weights, buffers, order and optimizer. `tensors` are in the order of the engine's names. What training
  // writes in place is copied: buffers, all that the optimizer keeps, and unless they `stay` the weights. Weights that
  // stay are referred to: they must not be written until the part is gone.
  void capture(Part& part, std::span<const at::Tensor> tensors, const optim::Optimizer* optimizer, bool weights_stay);

  // Writes the part into the engine's tensors and the optimizer: between ParameterStore's prepare and publish, where
  // there is one. Where a schedule sets learning rates, `scheduled`, the optimizer keeps its present ones; other
  // options are the part's. kInvalid, or kNotFound, with the name and both values, where the part is of another model
  // or of another optimizer; then some tensors may have been written.
  Status restore(const Part& part, optim::Optimizer* optimizer, bool scheduled) const;

  // What of the optimizer's options `restore` will leave as the part has them, where they are others here:
  // "lr 0.1 (0.2 here)". Each once, whichever groups have it.
  std::vector<std::string> options_kept(const Part& part, const optim::Optimizer* optimizer, bool scheduled) const;

  // Whether the part has all that `restore` would write, in the same shapes and types.
  Status fits(const Part& part, const optim::Optimizer* optimizer) const;

 private:
  std::vector<std::string> order() const;
  Status check_same_keys(const Part& part) const;
  Status restore_optimizer(const OptimizerPart& part, optim::Optimizer& optimizer, bool scheduled) const;

  const graph::Engine& engine_;
  std::size_t weights_ = 0;         // of the engine's names, those that are keys of the state dict
  std::vector<bool> is_parameter_;  // by name of a weight
  std::vector<bool> written_;       // by name: training writes it
  std::vector<std::size_t> extra_;  // buffers outside of the state dict that training writes
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
};

// A stored tensor as one of torch's, on the host, which shares its memory as long as it lives; not to be written.
Result<at::Tensor> tensor_of(const archive::Payload& payload);

}  // namespace ravnest::checkpoint
