#include "ravnest/graph/cut/stage_graph.h"

#include <algorithm>

#include "ravnest/graph/ir/tree_spec.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::graph {
namespace {

int stage_of(int position, const std::vector<int>& cuts) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
}

template <class Function>
void for_each_input(const ir::Operator& op, Function&& function) {
  for (const ir::NamedArgument& input : op.inputs)
    ir::for_each_ref(input.value, [&](const ir::Ref& ref) { function(ref.value); });
}

// What one stage needs from outside.
class Needs {
 public:
  Needs(const ir::Graph& graph, const Flow& flow, int begin, int end)
      : graph_(graph), flow_(flow), begin_(begin), end_(end) {}

  void collect(bool last_stage) {
    for (int i = begin_; i < end_; ++i) {
      if (!makes_sizes(graph_.operators[i]))
        for_each_input(graph_.operators[i], [&](ir::ValueId value) { need(value); });
    }
    if (!last_stage) return;
    for (const ir::Argument& output : graph_.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) { need(ref.value); });
  }

  // Sizes that have to come from a tensor: from one that is sent anyway where possible, else from the tensor that the
  // model itself took them from, which then is sent too.
  void settle_sizes() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) settle_size(sizes_[i]);  // settling one may add more
  }

  std::set<ir::ValueId> tensors;
  std::set<ir::ValueId> remade;
  std::map<ir::ValueId, std::pair<ir::ValueId, int>> read_off;

 private:
  bool is_outside(ir::ValueId value) const {
    const int at = flow_.defined_at[value];
    return at < begin_ || at >= end_;
  }

  bool is_size(ir::ValueId value) const { return graph_.values[value].kind != ir::ValueKind::kTensor; }

  // What such an operator reads is needed only if somebody needs the size, and nobody knows it from a tensor that is
  // there.
  bool makes_sizes(const ir::Operator& op) const {
    bool only_sizes = !op.outputs.empty();
    for (const ir::Argument& output : op.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) { only_sizes = only_sizes && is_size(ref.value); });
    return only_sizes;
  }

  void need(ir::ValueId value) {
    if (!seen_.insert(value).second) return;
    if (is_size(value)) {
      sizes_.push_back(value);
      return;
    }
    if (!is_outside(value)) return;
    const ir::Input* input = flow_.inputs[value];
    if (input != nullptr && input->kind != ir::InputKind::kUser) return;  // the stage's own tensor
    if (flow_.anywhere[value]) {
      remade.insert(value);
      for_each_input(graph_.operators[flow_.defined_at[value]], [&](ir::ValueId each) { need(each); });
    } else {
      tensors.insert(value);
    }
  }

  // By an operator of the stage, off a tensor that the stage makes or is given.
  bool is_measured_here(ir::ValueId size) const {
    if (is_outside(size)) return false;
    bool here = true;
    for_each_input(graph_.operators[flow_.defined_at[size]], [&](ir::ValueId each) {
      here = here && !is_size(each) && (!is_outside(each) || tensors.contains(each));
    });
    return here;
  }

  void settle_size(ir::ValueId size) {
    if (remade.contains(size) || read_off.contains(size) || is_measured_here(size)) return;
    for (const ir::ValueId tensor : tensors) {
      const std::vector<ir::Size>& sizes = graph_.values[tensor].tensor.sizes;
      const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const ir::Size& each) {
        return each.symbolic() && each.expression == graph_.values[size].expression;
      });
      if (found == sizes.end()) continue;
      read_off[size] = {tensor, static_cast<int>(found - sizes.begin())};
      return;
    }
    if (flow_.inputs[size] != nullptr) {  // a number that the user gives: passed on like a tensor
      tensors.insert(size);
      return;
    }
    if (is_outside(size)) remade.insert(size);
    for_each_input(graph_.operators[flow_.defined_at[size]], [&](ir::ValueId each) {
      if (is_size(each)) {
        settle_size(each);
      } else if (!is_outside(each)) {
        return;
      } else if (flow_.anywhere[each]) {
        need(each);
      } else if (flow_.inputs[each] == nullptr || flow_.inputs[each]->kind == ir::InputKind::kUser) {
        tensors.insert(each);
      }
    });
  }

  const ir::Graph& graph_;
  const Flow& flow_;
  int begin_;
  int end_;
  std::set<ir::ValueId> seen_;
  std::vector<ir::ValueId> sizes_;
};

// The operators that a stage runs, in order: those to be made again, then its own, without those that only other stages
// need. Operators with effects stay, whether or not anybody reads what they return.
std::vector<int> stage_operators(const ir::Graph& graph, const Flow& flow, const StageInterface& interface, int begin,
                                 int end, bool last) {
  std::set<int> positions;
  for (const ir::ValueId value : interface.remade) positions.insert(flow.defined_at[value]);
  for (int i = begin; i < end; ++i) positions.insert(i);

  std::set<ir::ValueId> wanted(interface.outputs.begin(), interface.outputs.end());
  if (last) {
    for (const ir::Argument& output : graph.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) { wanted.insert(ref.value); });
  }
  std::vector<int> kept;
  for (auto position = positions.rbegin(); position != positions.rend(); ++position) {
    const ir::Operator& op = graph.operators[*position];
    bool keep = !flow.pure[*position] || op.outputs.empty();
    for (const ir::Argument& output : op.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) {
        keep = keep || (wanted.contains(ref.value) && !interface.read_off.contains(ref.value));
      });
    if (!keep) continue;
    for_each_input(op, [&](ir::ValueId value) { wanted.insert(value); });
    kept.push_back(*position);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

std::vector<StageInterface> stage_interfaces(const ir::Graph& graph, const Flow& flow, const std::vector<int>& cuts) {
  const int count = static_cast<int>(cuts.size()) + 1;
  const auto in_order = [&](const std::set<ir::ValueId>& values) {
    std::vector<ir::ValueId> sorted(values.begin(), values.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](ir::ValueId a, ir::ValueId b) { return flow.defined_at[a] < flow.defined_at[b]; });
    return sorted;
  };
  std::vector<StageInterface> result(count);
  std::vector<std::set<ir::ValueId>> outputs(count);
  for (int stage = 0; stage < count; ++stage) {
    const int begin = stage == 0 ? 0 : cuts[stage - 1];
    const int end = stage + 1 == count ? static_cast<int>(graph.operators.size()) : cuts[stage];
    Needs needs(graph, flow, begin, end);
    needs.collect(stage + 1 == count);
    needs.settle_sizes();
    result[stage].inputs = in_order(needs.tensors);
    result[stage].remade = in_order(needs.remade);
    result[stage].read_off = std::move(needs.read_off);
    for (const ir::ValueId value : result[stage].inputs) {
      if (flow.defined_at[value] >= 0) outputs[stage_of(flow.defined_at[value], cuts)].insert(value);
    }
  }
  for (int stage = 0; stage < count; ++stage) result[stage].outputs = in_order(outputs[stage]);
  return result;
}

std::set<ir::ValueId> stage_tensors(const ir::Graph& graph, const Flow& flow, const StageInterface& interface,
                                    int begin, int end, bool last) {
  std::set<ir::ValueId> result;
  const auto add = [&](ir::ValueId value) {
    const ir::Input* input = flow.inputs[value];
    if (input != nullptr && input->kind != ir::InputKind::kUser) result.insert(value);
  };
  for (int i = begin; i < end; ++i) for_each_input(graph.operators[i], add);
  for (const ir::ValueId value : interface.remade) for_each_input(graph.operators[flow.defined_at[value]], add);
  if (last) {
    for (const ir::Argument& output : graph.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) { add(ref.value); });
  }
  return result;
}

ir::Graph stage_graph(const ir::Graph& graph, const Flow& flow, const StageInterface& interface,
                      const std::set<ir::ValueId>& tensors, int begin, int end, bool last) {
  ir::Graph stage;
  stage.ranges = graph.ranges;
  stage.autocasts = graph.autocasts;
  std::map<ir::ValueId, ir::ValueId> numbers;
  const auto adopt = [&](ir::ValueId value) {
    const auto [found, added] = numbers.emplace(value, static_cast<ir::ValueId>(stage.values.size()));
    if (added) stage.values.push_back(graph.values[value]);
    return found->second;
  };
  const auto translate = [&](ir::Argument argument) {
    ir::for_each_ref(argument, [&](ir::Ref& ref) { ref.value = adopt(ref.value); });
    return argument;
  };
  const auto add_operator = [&](ir::Operator op) {
    for (ir::NamedArgument& input : op.inputs) input.value = translate(std::move(input.value));
    for (ir::Argument& output : op.outputs) output = translate(std::move(output));
    stage.operators.push_back(std::move(op));
  };

  for (const ir::Input& input : graph.inputs) {
    if (!tensors.contains(input.value) || input.kind == ir::InputKind::kFixed) continue;
    ir::Input own = input;
    own.value = adopt(input.value);
    stage.inputs.push_back(std::move(own));
  }
  for (const ir::ValueId value : interface.inputs) {
    stage.inputs.push_back({ir::InputKind::kUser, adopt(value), "", true, {}});
    stage.argument_names.push_back(graph.values[value].name);
  }
  for (const auto& [size, source] : interface.read_off) {
    ir::Operator op;
    op.name = graph.values[size].name;
    op.target = "torch.ops.aten.sym_size.int";
    op.inputs = {{"self", ir::Ref{source.first}, false}, {"dim", std::int64_t{source.second}, false}};
    op.outputs = {ir::Ref{size}};
    op.place = -1;
    add_operator(std::move(op));
  }
  for (const int position : stage_operators(graph, flow, interface, begin, end, last))
    add_operator(graph.operators[position]);

  if (last) {
    for (const ir::Argument& output : graph.outputs) stage.outputs.push_back(translate(output));
    stage.out_spec = graph.out_spec;
    stage.namedtuple_fields = graph.namedtuple_fields;
  } else {
    for (const ir::ValueId value : interface.outputs) stage.outputs.push_back(ir::Ref{adopt(value)});
    stage.out_spec = ir::to_text(ir::tuple_of(std::vector<ir::TreeSpec>(interface.outputs.size())));
  }
  stage.in_spec = ir::to_text(ir::positional_call(static_cast<int>(interface.inputs.size())));
  return stage;
}

}  // namespace ravnest::graph
