#include "ravnest/graph/ir/replace.h"

#include <algorithm>

namespace ravnest::ir {
namespace {

std::size_t user_inputs(const Graph& graph) {
  return static_cast<std::size_t>(std::ranges::count_if(graph.inputs, [](const Input& input) {
    return input.kind == InputKind::kUser || input.kind == InputKind::kFixed;
  }));
}

Status check_fit(const Graph& own, const Routing& routing, std::string_view mode) {
  if (user_inputs(own) != routing.inputs.size()) {
    return invalid("the planned stage takes ", routing.inputs.size(), " tensors in ", mode, ", the given model ",
                   user_inputs(own));
  }
  if (own.outputs.size() != routing.consumers.size()) {
    return invalid("the planned stage returns ", routing.consumers.size(), " tensors in ", mode, ", the given model ",
                   own.outputs.size());
  }
  return {};
}

}  // namespace

Result<Model> replaced_stage(const Model& planned, Model own) {
  if (!planned.stage) return invalid("the planned model is no stage of one");
  if (Status fits = check_fit(own.train, planned.stage->train, "training"); !fits.ok()) return fits;
  if (Status fits = check_fit(own.eval, planned.stage->eval, "evaluation"); !fits.ok()) return fits;
  for (const auto& [name, stages] : planned.stage->tied) {
    const auto found = std::ranges::find(own.weights, name, &archive::NamedPayloads::value_type::first);
    if (found == own.weights.end())
      return invalid("the given model has no weight \"", name, "\", which other stages share");
  }
  own.stage = planned.stage;
  return own;
}

}  // namespace ravnest::ir
