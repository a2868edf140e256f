// Writes down the operators that a model calls, as it calls them, as a graph.
//
// Every call is also carried out on the example, so that all sizes, types and results are at hand for whoever decides
// what is called next. Sizes of tensors are recorded as values of the graph: whether they are numbers or change with
// the batch is found out later (sizes.h). A decision that was taken on such a value is a Guard.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/frontend/script/weights.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::graph::script {

// The recording is right only where this number has this value.
struct Guard {
  ir::ValueId number = -1;
  c10::IValue expected = {};
};

// The graph's inputs are all weights, then constants, then the user's; its tensors have no metadata yet.
struct Recording {
  ir::Graph graph;
  std::vector<Guard> guards;
  std::vector<std::pair<std::string, at::Tensor>> constants;
};

class Recorder {
 public:
  // The recording's calls read and write `tensors`, in the order of `weights`: copies, not the model's own.
  Recorder(const Weights& weights, std::vector<at::Tensor> tensors);

  Item weight(std::size_t index) const { return weights_[index]; }
  // The user's next argument: a tensor becomes an input, anything else is fixed in the graph.
  Item input(const std::string& name, const c10::IValue& value);

  // Throws Refusal for arguments that a graph cannot hold, c10::Error where the operator itself fails.
  std::vector<Item> call(const c10::OperatorHandle& operation, std::vector<Item> arguments);
  // Arithmetic on sizes: `target` is a size operator's.
  Item compute(const std::string& target, const std::vector<Item>& arguments);
  Item size(const Item& of, std::int64_t dimension);
  // A number where a tensor is wanted.
  Item as_tensor(const Item& number);

  // Fixes the number at its present value. Refuses what was read out of a tensor.
  void fix(const Item& number);

  // Whether autograd records, as the model sets it.
  bool grad_enabled() const { return grad_enabled_; }
  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }

  // The path and the class of the module that the next calls belong to.
  void enter(const std::string& path, const std::string& type) { modules_.emplace_back(path, type); }
  void leave() { modules_.pop_back(); }

  // The graph, with these results and in the order in which its inputs are to stand.
  Recording finish(const Item& outputs, std::string in_spec, std::vector<std::string> argument_names);

 private:
  ir::ValueId add_value(const std::string& name, ir::ValueKind kind);
  std::string unique(std::string name);
  ir::ValueId lift(const Item& constant, bool written);
  Item result(const c10::IValue& value, ir::Operator& op, const std::string& name);
  void add_operator(ir::Operator op);
  std::string owner_stack(const ir::Operator& op) const;
  Item without_grad(const Item& item);
  ir::TreeSpec output_tree(const Item& item, std::vector<ir::Argument>& flat);

  ir::Graph graph_;
  std::vector<Guard> guards_;
  std::vector<std::pair<std::string, at::Tensor>> constants_;
  std::vector<ir::Input> constant_inputs_;
  std::vector<ir::Input> user_inputs_;
  std::vector<Item> weights_;
  std::map<const void*, ir::ValueId> lifted_;  // constants by their memory's tensor
  std::set<const void*> written_;              // those of them that the graph writes to
  std::vector<std::pair<std::string, std::string>> modules_;
  std::set<std::string> names_;
  bool grad_enabled_ = true;
};

}  // namespace ravnest::graph::script
