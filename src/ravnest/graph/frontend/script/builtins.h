// TorchScript's own operators, those that are not torch's: on numbers, lists, tuples, dicts and sizes of tensors.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <vector>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/frontend/script/recorder.h"

namespace ravnest::graph::script {

// The node's results, or nothing where it is none of these. Lists and dicts are changed in place, as in the script.
std::optional<std::vector<Item>> call_builtin(const torch::jit::Node& node, std::vector<Item>& inputs,
                                              Recorder& recorder);

// Arithmetic on numbers that the graph computes; nothing where the node is no such call. A traced graph computes with
// sizes as if they were tensors; they are numbers here until a real tensor meets them.
std::optional<Item> call_on_numbers(const torch::jit::Node& node, const std::vector<Item>& inputs, Recorder& recorder);

// Runs the node in TorchScript's own way on the example. Numbers that go in are fixed at their values, and what comes
// out is constant. Refuses nodes that read tensors of the graph, except those that ask for their type, device and the
// like.
std::vector<Item> call_on_example(const torch::jit::Node& node, std::vector<Item>& inputs, Recorder& recorder);

}  // namespace ravnest::graph::script
