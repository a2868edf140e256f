// What the values of a recorded graph are in a real run.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/frontend/capture/example.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

struct Seen {
  bool defined = false;  // false: nobody made the value in this run
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  DType dtype = DType::kFloat32;
  Device device;
  bool requires_grad = false;
  std::optional<double> number = {};  // of a value that is one
};

Seen look_at(const c10::IValue& value);

// Runs the graph by the executor on tensors of its own; one Seen per value. The metadata of the graph's inputs must be
// there. The operators' own error, as kInvalid, where the graph does not run on these inputs.
Result<std::vector<Seen>> observe(const ir::Graph& graph, const std::vector<std::string>& tensor_names,
                                  const std::vector<at::Tensor>& tensors, const Leaves& inputs, c10::Device device);

}  // namespace ravnest::graph::script
