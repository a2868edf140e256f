// The tensors that a model owns, by the names of its state dict.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ravnest/graph/ir/graph.h"

namespace torch::jit {
struct Module;
}

namespace ravnest::graph::script {

struct Weight {
  std::string name;
  at::Tensor tensor;
  ir::InputKind kind = ir::InputKind::kParameter;  // or kBuffer
  bool persistent = true;
};
using Weights = std::vector<Weight>;

// In the order of the state dict. Tensors that are neither parameters nor buffers come as buffers outside of it.
Weights weights_of(const torch::jit::Module& module);

// Tensors of their own with the values, strides and ties of the weights.
std::vector<at::Tensor> copies(const Weights& weights);

// Where the weights live; the CPU where there are none.
c10::Device device_of(const Weights& weights);

// The model's tensors as stored data that shares their memory.
void store(const Weights& weights, ir::Model& model);

// Puts the buffers' values back at the end of its life, so that running the user's own model leaves no trace in it.
class Untouched {
 public:
  explicit Untouched(const Weights& weights);
  ~Untouched();
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the model's own, and what it was
};

}  // namespace ravnest::graph::script
