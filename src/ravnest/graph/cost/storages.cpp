#include "ravnest/graph/cost/storages.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "ravnest/graph/operators/operator_sets.h"
#include "ravnest/graph/operators/operators.h"
#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {
namespace {

// Whether a result that may share its input's memory does, at these sizes.
bool is_view(const ShapedOperator& op, const Shape& input, const Shape& output) {
  const std::string_view name = op.name();
  if (name == "view" || name == "reshape" || name == "flatten" || name == "unflatten" || name == "reshape_as" ||
      name == "view_as")
    return viewable(input, output.sizes);
  if (name == "contiguous") return input.contiguous();
  if (name == "to" || name == "type_as") return input.dtype == output.dtype && !op.flag("copy", false);
  if (name.ends_with("dropout")) return op.in_place() || !op.flag("train", true) || op.number("p", 0.5) == 0;
  return name != "unsafe_chunk" && name != "conj_physical";
}

using Payloads = std::unordered_map<std::string_view, const archive::Payload*>;

Payloads by_name(const ir::Model& model) {
  Payloads payloads;
  for (const archive::NamedPayloads* list : {&model.weights, &model.constants})
    for (const auto& [name, payload] : *list) payloads.emplace(name, &payload);
  return payloads;
}

class Finder {
 public:
  Finder(const ir::Model& model, const ir::Graph& graph, const Shapes& shapes)
      : graph_(graph), shapes_(shapes), payloads_(by_name(model)) {
    result_.of.assign(graph.values.size(), -1);
  }

  Result<Storages> find() {
    for (const ir::Input& input : graph_.inputs) {
      if (input.value >= 0 && graph_.values[input.value].kind == ir::ValueKind::kTensor) place_input(input);
    }
    for (const ir::Operator& op : graph_.operators) {
      const Result<Effects> effects = effects_of(op);
      if (!effects.ok()) return effects.status().with_context(text("at \"", op.name, "\""));
      const ShapedOperator shaped(op, shapes_);
      for (const auto& [output, input] : effects->aliases) {
        if (result_.of[output] < 0 && is_view(shaped, shapes_[input], shapes_[output]))
          result_.of[output] = result_.of[input];
      }
      for (const ir::ValueId output : shaped.outputs()) {
        if (result_.of[output] < 0 && graph_.values[output].kind == ir::ValueKind::kTensor)
          result_.of[output] = add(Owner::kPass, shapes_[output].bytes());
      }
    }
    return std::move(result_);
  }

 private:
  int add(Owner owner, std::int64_t bytes) {
    result_.memories.push_back({owner, bytes});
    return static_cast<int>(result_.memories.size()) - 1;
  }

  void place_input(const ir::Input& input) {
    int& storage = result_.of[input.value];
    const auto payload = payloads_.find(input.target);
    if (input.kind == ir::InputKind::kUser || payload == payloads_.end()) {
      storage = add(Owner::kUser, shapes_[input.value].bytes());
      return;
    }
    const archive::Storage* bytes = payload->second->storage.get();
    const auto [entry, is_new] = model_storages_.try_emplace(bytes, 0);
    if (is_new || bytes == nullptr) entry->second = add(Owner::kModel, shapes_[input.value].bytes());
    storage = entry->second;
  }

  const ir::Graph& graph_;
  const Shapes& shapes_;
  Payloads payloads_;
  std::unordered_map<const archive::Storage*, int> model_storages_;
  Storages result_;
};

}  // namespace

Result<Storages> find_storages(const ir::Model& model, const ir::Graph& graph, const Shapes& shapes) {
  return Finder(model, graph, shapes).find();
}

std::vector<bool> gradient_flow(const ir::Model& model, const ir::Graph& graph) {
  std::vector<bool> needs(graph.values.size(), false);
  const Payloads payloads = by_name(model);
  std::size_t user_index = 0;
  for (const ir::Input& input : graph.inputs) {
    const bool is_user = input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed;
    const std::size_t index = is_user ? user_index++ : 0;
    if (input.value < 0 || !is_floating(graph.values[input.value].tensor.dtype)) continue;
    if (input.kind == ir::InputKind::kParameter) {
      const auto payload = payloads.find(input.target);
      needs[input.value] = payload != payloads.end() && payload->second->requires_grad;
    } else if (is_user && model.stage && index < model.stage->train.inputs.size()) {
      needs[input.value] = model.stage->train.inputs[index].stage >= 0;
    }
  }
  const Shapes no_shapes;
  for (const ir::Operator& op : graph.operators) {
    const ShapedOperator shaped(op, no_shapes);
    if (stops_gradient(shaped.name())) continue;
    const std::vector<ir::ValueId> inputs = shaped.inputs();
    if (std::none_of(inputs.begin(), inputs.end(), [&](ir::ValueId value) { return needs[value]; })) continue;
    for (const ir::ValueId output : shaped.outputs()) {
      const ir::Value& value = graph.values[output];
      needs[output] = value.kind == ir::ValueKind::kTensor && is_floating(value.tensor.dtype);
    }
  }
  return needs;
}

}  // namespace ravnest::graph
