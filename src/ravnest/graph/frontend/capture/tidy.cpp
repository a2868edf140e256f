#include "ravnest/graph/frontend/capture/tidy.h"

#include <algorithm>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/operators.h"

namespace ravnest::graph::script {
namespace {

void replace(ir::Argument& argument, const std::map<ir::ValueId, ir::Argument>& numbers) {
  if (const auto* ref = std::get_if<ir::Ref>(&argument)) {
    const auto found = numbers.find(ref->value);
    if (found != numbers.end()) argument = ir::Argument(found->second);
    return;
  }
  auto* sizes = std::get_if<std::vector<ir::IntOrRef>>(&argument);
  if (sizes == nullptr) return;
  std::vector<std::int64_t> known;
  for (ir::IntOrRef& size : *sizes) {
    if (const auto* ref = std::get_if<ir::Ref>(&size)) {
      const auto found = numbers.find(ref->value);
      if (found != numbers.end()) size = std::get<std::int64_t>(found->second);
    }
    if (const auto* number = std::get_if<std::int64_t>(&size)) known.push_back(*number);
  }
  if (known.size() == sizes->size()) argument = std::move(known);
}

void drop_unused_values(ir::Graph& graph) {
  std::vector<ir::ValueId> numbers(graph.values.size(), -1);
  std::vector<ir::Value> kept;
  const auto keep = [&](ir::ValueId value) {
    if (numbers[value] >= 0) return;
    numbers[value] = static_cast<ir::ValueId>(kept.size());
    kept.push_back(graph.values[value]);
  };
  for (const ir::Input& input : graph.inputs)
    if (input.value >= 0) keep(input.value);
  for (const ir::Operator& op : graph.operators)
    for (const ir::Argument& output : op.outputs) ir::for_each_ref(output, [&](ir::Ref ref) { keep(ref.value); });
  const auto renumber = [&](ir::Ref& ref) { ref.value = numbers[ref.value]; };
  for (ir::Input& input : graph.inputs)
    if (input.value >= 0) input.value = numbers[input.value];
  for (ir::Operator& op : graph.operators) {
    for (ir::NamedArgument& input : op.inputs) ir::for_each_ref(input.value, renumber);
    for (ir::Argument& output : op.outputs) ir::for_each_ref(output, renumber);
  }
  for (ir::Argument& output : graph.outputs) ir::for_each_ref(output, renumber);
  graph.values = std::move(kept);
}

}  // namespace

void replace_numbers(ir::Graph& graph, const std::map<ir::ValueId, ir::Argument>& numbers) {
  for (ir::Operator& op : graph.operators)
    for (ir::NamedArgument& input : op.inputs) replace(input.value, numbers);
  for (ir::Argument& output : graph.outputs) replace(output, numbers);
}

void remove_dead_operators(ir::Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto use = [&](ir::Ref ref) { used[ref.value] = true; };
  for (const ir::Argument& output : graph.outputs) ir::for_each_ref(output, use);
  std::vector<ir::Operator> kept;
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const Result<Effects> effects = effects_of(*op);
    if (!effects.ok()) throw Refusal{effects.status()};
    bool needed = effects->random || !effects->writes.empty();
    for (const ir::Argument& output : op->outputs)
      ir::for_each_ref(output, [&](ir::Ref ref) { needed = needed || used[ref.value]; });
    if (!needed) continue;
    for (const ir::NamedArgument& input : op->inputs) ir::for_each_ref(input.value, use);
    kept.push_back(std::move(*op));
  }
  std::reverse(kept.begin(), kept.end());
  graph.operators = std::move(kept);
  std::erase_if(graph.inputs,
                [&](const ir::Input& input) { return input.kind == ir::InputKind::kConstant && !used[input.value]; });
  for (std::size_t i = 0; i < graph.operators.size(); ++i) graph.operators[i].place = static_cast<std::int32_t>(i);
  drop_unused_values(graph);
}

}  // namespace ravnest::graph::script
