// TorchScript modules as models: without Python, from a file or from a module at hand.
//
// The script is walked on the example: calls are followed, branches taken and loops unrolled, until only operators are
// left, once in training and once in eval mode. A traced module (torch.jit.trace) has its mode baked in: both graphs
// are what was traced. Parameters and buffers keep their names; names of one tensor share it. Tensors that a module
// keeps in other attributes become buffers outside of the state dict.
//
// The batch, dimension 0 of the first tensor and of those that agree with it, may be of any size if the model works at
// others; otherwise, and in all other dimensions, sizes are those of the example. A decision that the script takes on
// the batch size limits it to the sizes that decide alike.
//
// Refused, with the node and its line: branches and loops on a tensor's data, numbers read out of tensors, objects of
// classes made in C++, attributes that change and are no tensors. Refused too: a graph whose outputs, gradients or
// buffers differ from the module's own on the example, with what differs.
#pragma once

#include <ATen/core/ivalue.h>

#include <filesystem>
#include <vector>

#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace torch::jit {
struct Module;
}

namespace ravnest::graph {

namespace script {
struct Recording;
}

// The arguments of `forward` by position: tensors, numbers, strings, None, and lists, tuples and dicts of them; those
// left out take their defaults. All but tensors are fixed in the graph.
// The module is as before, its mode, buffers and gradients included, and so are the process's generators; nobody else
// may use them meanwhile. The model shares the memory of the module's tensors: make an Engine of it, or write it,
// before they change.
Result<ir::Model> from_script(const torch::jit::Module& module, std::vector<c10::IValue> example_inputs,
                              const Logger& log = Logger());

// The calls of one forward on the example, each part of the module in the mode that it stands in. For whoever finds
// sizes and checks the result with means of their own, as the Python package does by torch.export.
Result<script::Recording> record_script(const torch::jit::Module& module, std::vector<c10::IValue> example_inputs);

// `from_script` for what torch.jit.save, or Module::save in C++, wrote; on the CPU.
Result<ir::Model> load_script(const std::filesystem::path& path, std::vector<c10::IValue> example_inputs,
                              const Logger& log = Logger());

}  // namespace ravnest::graph
