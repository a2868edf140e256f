// Walks a TorchScript graph with a recorder: calls are followed, branches taken and loops unrolled as they go on the
// example, so that nothing but operators is left.
//
// What a branch or a loop hangs on must not be a tensor's data: refused, with the line of the script. Where it hangs on
// a size, the recording is guarded by it.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/frontend/script/recorder.h"

namespace ravnest::graph::script {

class Interpreter {
 public:
  // `training` is what modules' attribute of that name reads as; without it, what each module has there. `weight_of`
  // gives a module's tensor its item.
  Interpreter(Recorder& recorder, std::optional<bool> training, std::function<Item(const at::Tensor&)> weight_of)
      : recorder_(recorder), training_(training), weight_of_(std::move(weight_of)) {}

  // What the graph returns; a tuple where it has several results. Throws Refusal.
  Item run(const torch::jit::Graph& graph, std::vector<Item> inputs);

  // A method of the module, with the module itself as first input.
  Item call_method(const std::string& name, std::vector<Item> inputs);

  Item module_item(const c10::IValue& module, const std::string& path) const;

  // Attributes that the script has set to another tensor, to be copied into the weight that they were.
  void write_back();

 private:
  using Environment = std::unordered_map<const torch::jit::Value*, Item>;

  std::vector<Item> run_block(const torch::jit::Block& block, Environment& environment);
  std::vector<Item> run_node(const torch::jit::Node& node, Environment& environment);
  std::vector<Item> run_if(const torch::jit::Node& node, Environment& environment);
  std::vector<Item> run_loop(const torch::jit::Node& node, Environment& environment);
  std::vector<Item> run_operator(const torch::jit::Node& node, std::vector<Item>& inputs);
  Item call_function(torch::jit::Function& function, std::vector<Item> inputs);
  Item attribute(Object& object, const std::string& name);
  void set_attribute(Object& object, const std::string& name, const Item& value);
  bool decide(const Item& condition);

  Recorder& recorder_;
  std::optional<bool> training_;
  std::function<Item(const at::Tensor&)> weight_of_;
  std::vector<std::pair<Item, Item>> set_;  // (weight, its new value)
};

}  // namespace ravnest::graph::script
