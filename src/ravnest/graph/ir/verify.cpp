#include "ravnest/graph/ir/verify.h"

#include <algorithm>
#include <set>

#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::ir {
namespace {

class Definitions {
 public:
  explicit Definitions(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  Status define(ValueId value, std::string_view where) {
    if (value < 0 || static_cast<std::size_t>(value) >= defined_.size())
      return corrupt(where, ": value ", value, " does not exist");
    if (defined_[value]) return corrupt(where, ": value \"", graph_.values[value].name, "\" is defined twice");
    defined_[value] = true;
    return {};
  }

  Status use(ValueId value, std::string_view where) const {
    if (value < 0 || static_cast<std::size_t>(value) >= defined_.size())
      return corrupt(where, ": value ", value, " does not exist");
    if (!defined_[value])
      return corrupt(where, ": value \"", graph_.values[value].name, "\" is used before it is defined");
    return {};
  }

 private:
  const Graph& graph_;
  std::vector<bool> defined_;
};

template <class Function>
Status first_failure(const Argument& argument, Function&& function) {
  Status status;
  for_each_ref(argument, [&](Ref ref) {
    if (status.ok()) status = function(ref.value);
  });
  return status;
}

Status check_leaves(const std::string& spec, std::size_t expected, std::string_view what) {
  const Result<TreeSpec> parsed = parse_tree_spec(spec);
  if (!parsed.ok()) return parsed.status().with_context(what);
  const int leaves = leaf_count(*parsed);
  if (static_cast<std::size_t>(leaves) != expected)
    return corrupt(what, " has ", leaves, " leaves for ", expected, " values");
  return {};
}

Status check_tensors(const Model& model, const Graph& graph) {
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::kUser || input.kind == InputKind::kFixed) continue;
    const archive::Payload* payload = find_payload(model, input.target, input.kind, input.persistent);
    if (payload == nullptr) return corrupt("tensor \"", input.target, "\" is used by the graph but not stored");
    const TensorMeta& meta = graph.values[input.value].tensor;
    bool agrees = meta.dtype == payload->dtype && meta.sizes.size() == payload->sizes.size();
    for (std::size_t i = 0; agrees && i < meta.sizes.size(); ++i)
      agrees = !meta.sizes[i].symbolic() && meta.sizes[i].hint == payload->sizes[i];
    if (!agrees)
      return corrupt("tensor \"", input.target, "\": the graph and the stored tensor differ in type or size");
  }
  return {};
}

}  // namespace

Status check(const Graph& graph) {
  Definitions definitions(graph);
  std::size_t user_inputs = 0;
  for (const Input& input : graph.inputs) {
    const bool of_user = input.kind == InputKind::kUser || input.kind == InputKind::kFixed;
    user_inputs += of_user ? 1 : 0;
    if (!of_user && user_inputs > 0) return corrupt("input \"", input.target, "\" stands behind the user's inputs");
    if (input.kind == InputKind::kFixed) continue;
    if (Status status = definitions.define(input.value, "graph inputs"); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < graph.autocasts.size(); ++i) {
    const std::int32_t parent = graph.autocasts[i].parent;
    if (parent < -1 || parent >= static_cast<std::int32_t>(i))
      return corrupt("autocast block ", i, " stands in block ", parent, ", which does not come before it");
  }
  for (const Operator& op : graph.operators) {
    const std::string where = text("operator \"", op.name, "\" (", op.target, ")");
    if (op.autocast < -1 || op.autocast >= static_cast<std::int32_t>(graph.autocasts.size()))
      return corrupt(where, ": autocast block ", op.autocast, " does not exist");
    for (const NamedArgument& input : op.inputs) {
      Status status = first_failure(input.value, [&](ValueId v) { return definitions.use(v, where); });
      if (!status.ok()) return status;
    }
    for (const Argument& output : op.outputs) {
      Status status = first_failure(output, [&](ValueId v) { return definitions.define(v, where); });
      if (!status.ok()) return status;
    }
  }
  for (const Argument& output : graph.outputs) {
    Status status = first_failure(output, [&](ValueId v) { return definitions.use(v, "graph outputs"); });
    if (!status.ok()) return status;
  }
  if (Status status = check_leaves(graph.in_spec, user_inputs, "in_spec"); !status.ok()) return status;
  return check_leaves(graph.out_spec, graph.outputs.size(), "out_spec");
}

Status check(const Model& model) {
  for (const archive::NamedPayloads* list : {&model.weights, &model.constants}) {
    std::set<std::string> seen;
    for (const auto& [name, payload] : *list) {
      if (!seen.insert(name).second) return corrupt("tensor \"", name, "\" is stored twice");
      if (Status status = check(payload); !status.ok()) return status.with_context("tensor \"" + name + "\"");
    }
  }
  if (Status status = check(model.train); !status.ok()) return status.with_context("training graph");
  if (Status status = check(model.eval); !status.ok()) return status.with_context("eval graph");
  if (Status status = check_tensors(model, model.train); !status.ok()) return status.with_context("training graph");
  return check_tensors(model, model.eval).with_context("eval graph");
}

}  // namespace ravnest::ir
