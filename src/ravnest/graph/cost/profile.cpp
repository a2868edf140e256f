#include "ravnest/graph/cost/profile.h"

#include <algorithm>
#include <unordered_map>

#include "ravnest/graph/cost/flops.h"
#include "ravnest/graph/cost/step_memory.h"
#include "ravnest/graph/cost/storages.h"
#include "ravnest/graph/cut/flow.h"
#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {
namespace {

std::int64_t payload_bytes(const archive::Payload& payload) {
  return archive::element_count(payload) * static_cast<std::int64_t>(item_size(payload.dtype));
}

// The position of the first operator that uses each stored tensor, under any of its names.
std::unordered_map<std::string_view, int> first_uses(const ir::Graph& graph, const Flow& flow) {
  std::unordered_map<std::string_view, int> uses;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser || input.value < 0 || flow.used_at[input.value].empty()) continue;
    const int position = std::min<int>(flow.used_at[input.value].front(), static_cast<int>(graph.operators.size()) - 1);
    uses.emplace(input.target, position);
  }
  return uses;
}

// Parameters, each once, with the operator that uses it first; buffers and constants in one sum.
void count_stored(const ir::Model& model, const Flow& flow, Profile& profile) {
  const std::unordered_map<std::string_view, int> uses = first_uses(model.train, flow);
  struct Stored {
    const archive::Payload* payload = nullptr;
    int first_use = -1;
  };
  std::vector<Stored> parameters;
  std::unordered_map<const archive::Storage*, std::vector<std::size_t>> by_storage;
  for (const auto& [name, payload] : model.weights) {
    if (!payload.is_parameter) {
      profile.buffer_bytes += payload_bytes(payload);
      continue;
    }
    const auto use = uses.find(name);
    const int position = use == uses.end() ? -1 : use->second;
    std::vector<std::size_t>& neighbours = by_storage[payload.storage.get()];
    const auto twin = std::find_if(neighbours.begin(), neighbours.end(), [&, &own = payload](std::size_t index) {
      return archive::same_tensor(*parameters[index].payload, own);
    });
    if (twin == neighbours.end()) {
      neighbours.push_back(parameters.size());
      parameters.push_back({&payload, position});
    } else if (position >= 0) {
      int& first = parameters[*twin].first_use;
      first = first < 0 ? position : std::min(first, position);
    }
  }
  for (const auto& [name, payload] : model.constants) profile.buffer_bytes += payload_bytes(payload);
  int previous = 0;
  for (const auto& [payload, first_use] : parameters) {
    const std::int64_t bytes = payload_bytes(*payload);
    profile.parameter_bytes += bytes;
    if (payload->requires_grad) profile.gradient_bytes += bytes;
    if (first_use >= 0) previous = first_use;
    if (profile.operators.empty()) continue;
    profile.operators[previous].parameter_bytes += bytes;
    if (payload->requires_grad) profile.operators[previous].trainable_elements += archive::element_count(*payload);
  }
}

Status check_symbols(const ir::Graph& graph, const ir::SymbolValues& symbols) {
  const ir::SymbolValues known = symbol_values(graph, {});
  for (const auto& [symbol, value] : symbols) {
    if (!known.contains(symbol)) {
      std::vector<std::string> names;
      for (const auto& [name, hint] : known) names.push_back(name);
      return invalid("the model has no size named ", symbol, "; it has ",
                     names.empty() ? "none that can change" : join(names));
    }
    if (value < 0) return invalid("size ", symbol, " cannot be ", value);
  }
  return {};
}

}  // namespace

void sum_up(Profile& profile) {
  CutProfile sum;
  for (CutProfile& cut : profile.cuts) {
    const OperatorProfile& before = profile.operators[cut.position - 1];
    cut.forward_flops = sum.forward_flops += before.forward_flops;
    cut.backward_flops = sum.backward_flops += before.backward_flops;
    cut.parameter_bytes = sum.parameter_bytes += before.parameter_bytes;
    cut.trainable_elements = sum.trainable_elements += before.trainable_elements;
    cut.saved_bytes = sum.saved_bytes += before.saved_bytes;
    cut.microseconds = sum.microseconds += before.microseconds;
  }
}

Result<Profile> profile_shapes(const ir::Model& model, const ir::SymbolValues& symbols) {
  if (Status status = check_symbols(model.train, symbols); !status.ok()) return status;
  return profile_shapes(model, evaluate_shapes(model.train, symbol_values(model.train, symbols)));
}

Result<Profile> profile_shapes(const ir::Model& model, const Shapes& shapes) {
  const ir::Graph& graph = model.train;
  const Result<Flow> flow = analyse_flow(graph);
  if (!flow.ok()) return flow.status();
  const Result<Storages> storages = find_storages(model, graph, shapes);
  if (!storages.ok()) return storages.status();
  const std::vector<bool> needs_gradient = gradient_flow(model, graph);
  const StepMemory memory = walk_step(graph, shapes, *storages, needs_gradient);

  Profile profile;
  profile.shapes = shapes;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const ir::Operator& op = graph.operators[i];
    const ShapedOperator shaped(op, shapes);
    OperatorProfile& made = profile.operators.emplace_back();
    made.name = op.name;
    made.target = op.target;
    made.module = ir::module_path(op);
    made.forward_flops = forward_flops(shaped);
    made.backward_flops = backward_flops(shaped, needs_gradient);
    made.saved_bytes = memory.saved_bytes[i];
    for (const ir::ValueId value : shaped.outputs())
      if (graph.values[value].kind == ir::ValueKind::kTensor) made.output_bytes += shapes[value].bytes();
    profile.saved_bytes += made.saved_bytes;
  }
  count_stored(model, *flow, profile);
  for (const ir::Input& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser && graph.values[input.value].kind == ir::ValueKind::kTensor)
      profile.input_bytes += shapes[input.value].bytes();
  }
  profile.peak_training_bytes =
      profile.parameter_bytes + profile.buffer_bytes + profile.input_bytes + memory.peak_bytes;

  Result<std::vector<Cut>> cuts = possible_cuts(model, shapes);
  if (!cuts.ok()) return cuts.status();
  std::vector<std::int64_t> gradient_bytes(shapes.size(), 0);
  for (std::size_t value = 0; value < shapes.size(); ++value)
    if (needs_gradient[value]) gradient_bytes[value] = shapes[value].bytes();
  const std::vector<std::int64_t> gradients_over = crossing_sums(graph, *flow, gradient_bytes);
  for (Cut& cut : *cuts) {
    CutProfile& made = profile.cuts.emplace_back();
    made.position = cut.position;
    made.refusal = std::move(cut.refusal);
    made.tensors = cut.tensors;
    made.bytes = cut.bytes;
    made.gradient_bytes = gradients_over[cut.position];
    made.saved_again_bytes = memory.saved_again_bytes[cut.position];
  }
  sum_up(profile);
  return profile;
}

}  // namespace ravnest::graph
