#include "ravnest/graph/cut/slice.h"

#include <algorithm>
#include <map>
#include <set>

#include "ravnest/graph/cut/flow.h"
#include "ravnest/graph/cut/stage_graph.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::graph {
namespace {

using StageSets = std::map<std::string, std::set<int>>;  // tensor's name -> stages

bool is_model_tensor(const ir::Input& input) {
  return input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed;
}

// All names of the tensor `name` is, itself included.
std::map<std::string, std::vector<std::string>> name_groups(const ir::Model& model) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const auto& [name, payload] : model.weights) {
    std::vector<std::string>& names = groups[name];
    for (const auto& [other, other_payload] : model.weights) {
      if (other == name || archive::same_tensor(payload, other_payload)) names.push_back(other);
    }
  }
  return groups;
}

class Slicer {
 public:
  explicit Slicer(const ir::Model& model) : model_(model), groups_(name_groups(model)) {}

  Status analyse() {
    Result<Flow> train = analyse_flow(model_.train);
    if (!train.ok()) return train.status().with_context("training graph");
    Result<Flow> eval = analyse_flow(model_.eval, train->changed);
    if (!eval.ok()) return eval.status().with_context("eval graph");
    train_ = std::move(*train);
    eval_ = std::move(*eval);
    for (const ir::Input& input : model_.train.inputs) {
      if (!is_model_tensor(input)) continue;
      for (const int position : train_.used_at[input.value]) note_use(train_uses_, input.target, position);
    }
    for (const ir::Input& input : model_.eval.inputs) {
      if (!is_model_tensor(input)) continue;
      for (const int position : eval_.used_at[input.value]) note_use(eval_uses_, input.target, position);
    }
    for (const auto& [name, positions] : eval_uses_) {
      const auto train_positions = train_uses_.find(name);
      if (train_positions != train_uses_.end())
        spans_.push_back({span_of(train_positions->second), span_of(positions)});
    }
    eval_crossing_ = crossing_sums(model_.eval, eval_, std::vector<std::int64_t>(model_.eval.values.size(), 1));
    return {};
  }

  // Why the model cannot be cut at all of these positions at once; empty where it can.
  std::string refusal(std::span<const int> cuts) const {
    int previous = 0;
    for (const int cut : cuts) {
      if (cut <= previous || cut >= static_cast<int>(model_.train.operators.size()))
        return text("cut ", cut, ": positions must ascend and lie between 1 and ", model_.train.operators.size() - 1);
      previous = cut;
      if (!train_.refusals[cut].empty())
        return text(cut_text(model_.train.operators[cut].name), "not ", train_.refusals[cut]);
    }
    std::vector<int> unused;
    return place_eval_cuts(cuts, unused);
  }

  const Flow& train_flow() const { return train_; }

  Result<std::vector<ir::Model>> slice(std::span<const int> cuts) const {
    if (const std::string reason = refusal(cuts); !reason.empty()) return invalid(reason);
    const std::vector<int> train_cuts(cuts.begin(), cuts.end());
    std::vector<int> eval_cuts;
    if (const std::string reason = place_eval_cuts(cuts, eval_cuts); !reason.empty()) return invalid(reason);
    std::vector<ir::Model> stages(cuts.size() + 1);
    const StageSets owners = weight_owners(train_cuts);
    cut_graph(model_.train, train_, train_cuts, owners, stages, &ir::Model::train, &ir::StageInfo::train);
    cut_graph(model_.eval, eval_, eval_cuts, owners, stages, &ir::Model::eval, &ir::StageInfo::eval);
    for (std::size_t i = 0; i < stages.size(); ++i) give_tensors(stages[i], owners, static_cast<int>(i));
    for (ir::Model& stage : stages) describe_whole(*stage.stage);
    for (const ir::Model& stage : stages) {
      if (Status status = ir::check(stage); !status.ok())
        return internal("a stage came out malformed: ", status.message());
    }
    return stages;
  }

 private:
  // Weights are counted by all their names, so that a tied weight is one weight. Buffers and constants that anybody
  // may have a copy of put no constraint on a cut.
  void note_use(std::map<std::string, std::vector<int>>& uses, const std::string& name, int position) const {
    const auto group = groups_.find(name);
    if (group == groups_.end()) return;
    for (const std::string& each : group->second) uses[each].push_back(position);
  }

  // The first and the last operator that use a weight.
  struct Span {
    int first = 0;
    int last = 0;
  };

  static Span span_of(const std::vector<int>& positions) {
    const auto [first, last] = std::minmax_element(positions.begin(), positions.end());
    return {*first, *last};
  }

  static int stage_of(int position, std::span<const int> cuts) {
    return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
  }

  // Positions for the eval graph such that every weight is used in a stage that has it. The operator of the same name
  // is taken where that is right, else the cheapest position.
  std::string place_eval_cuts(std::span<const int> cuts, std::vector<int>& eval_cuts) const {
    const int last_stage = static_cast<int>(cuts.size());
    const auto train_stage = [&](int position) { return std::min(stage_of(position, cuts), last_stage); };
    int previous = 0;
    for (int k = 1; k <= last_stage; ++k) {
      int low = previous;
      int high = static_cast<int>(model_.eval.operators.size());
      for (const auto& [train, eval] : spans_) {
        if (train_stage(train.last) < k) low = std::max(low, eval.last + 1);
        if (train_stage(train.first) >= k) high = std::min(high, eval.first);
      }
      const int chosen = best_eval_position(low, high, cuts[k - 1]);
      if (chosen < 0)
        return text(cut_text(model_.train.operators[cuts[k - 1]].name),
                    "the eval graph has no place where the same weights are on either side");
      eval_cuts.push_back(chosen);
      previous = chosen;
    }
    return {};
  }

  bool eval_allows(int position) const {
    return position == 0 || position == static_cast<int>(model_.eval.operators.size()) ||
           eval_.refusals[position].empty();
  }

  int best_eval_position(int low, int high, int train_position) const {
    const std::string& name = model_.train.operators[train_position].name;
    int best = -1;
    std::int64_t fewest = 0;
    for (int p = low; p <= high && p <= static_cast<int>(model_.eval.operators.size()); ++p) {
      if (!eval_allows(p)) continue;
      if (p < static_cast<int>(model_.eval.operators.size()) && model_.eval.operators[p].name == name) return p;
      const std::int64_t tensors = eval_crossing_[p];
      if (best < 0 || tensors < fewest) {
        best = p;
        fewest = tensors;
      }
    }
    return best;
  }

  // A weight that no operator uses goes with the weight before it.
  StageSets weight_owners(const std::vector<int>& cuts) const {
    StageSets owners;
    int previous = 0;
    for (const auto& [name, payload] : model_.weights) {
      std::set<int>& stages = owners[name];
      const auto uses = train_uses_.find(name);
      if (uses != train_uses_.end()) {
        for (const int position : uses->second)
          stages.insert(std::min(stage_of(position, cuts), static_cast<int>(cuts.size())));
      }
      if (stages.empty()) stages.insert(previous);
      previous = *stages.begin();
    }
    return owners;
  }

  void cut_graph(const ir::Graph& graph, const Flow& flow, const std::vector<int>& cuts, const StageSets& owners,
                 std::vector<ir::Model>& stages, ir::Graph ir::Model::*member,
                 ir::Routing ir::StageInfo::*routing) const {
    const std::vector<StageInterface> interfaces = stage_interfaces(graph, flow, cuts);
    std::map<ir::ValueId, int> user_index;
    for (const ir::Input& input : graph.inputs) {
      if (is_model_tensor(input)) continue;
      const int index = static_cast<int>(user_index.size());
      user_index.emplace(input.kind == ir::InputKind::kFixed ? -1 - index : input.value, index);
    }
    for (int k = 0; k < static_cast<int>(stages.size()); ++k) {
      const int begin = k == 0 ? 0 : cuts[k - 1];
      const bool last = k + 1 == static_cast<int>(stages.size());
      const int end = last ? static_cast<int>(graph.operators.size()) : cuts[k];
      std::set<ir::ValueId> tensors = stage_tensors(graph, flow, interfaces[k], begin, end, last);
      for (const ir::Input& input : graph.inputs) {
        const auto owner = owners.find(input.target);
        if (is_model_tensor(input) && owner != owners.end() && owner->second.contains(k)) tensors.insert(input.value);
      }
      stages[k].*member = stage_graph(graph, flow, interfaces[k], tensors, begin, end, last);
      if (!stages[k].stage) stages[k].stage = ir::StageInfo{k, static_cast<int>(stages.size()), {}, {}, {}};
      ir::Routing& own = (*stages[k].stage).*routing;
      ir::Routing& first = (*stages[0].stage).*routing;
      own.consumers.resize((stages[k].*member).outputs.size());
      if (k == 0) first.model_inputs.resize(user_index.size());
      if (k > 0 && interfaces[k].inputs.empty()) first.without_inputs.push_back(k);
      for (const ir::ValueId value : interfaces[k].inputs) {
        if (flow.defined_at[value] < 0) {
          const int index = user_index.at(value);
          own.inputs.push_back({-1, index});
          if (k > 0) first.model_inputs[index].push_back(k);
          continue;
        }
        const int producer = stage_of(flow.defined_at[value], cuts);
        const std::vector<ir::ValueId>& outputs = interfaces[producer].outputs;
        const auto index = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
        own.inputs.push_back({producer, static_cast<std::int32_t>(index)});
        ((*stages[producer].stage).*routing).consumers[index].push_back(k);
      }
    }
  }

  void describe_whole(ir::StageInfo& stage) const {
    const auto signature = [](const ir::Graph& graph) {
      return ir::Signature{graph.in_spec, graph.out_spec, graph.argument_names};
    };
    stage.train_call = signature(model_.train);
    stage.eval_call = signature(model_.eval);
    for (const auto& [name, payload] : model_.weights) stage.state_dict.push_back(name);
  }

  // The stored tensors that a stage's two graphs name, in the model's order.
  void give_tensors(ir::Model& stage, const StageSets& owners, int index) const {
    std::set<std::string> named;
    for (const ir::Graph* graph : {&stage.train, &stage.eval}) {
      for (const ir::Input& input : graph->inputs) named.insert(input.target);
    }
    for (const auto& [name, payload] : model_.weights) {
      const std::set<int>& stages = owners.at(name);
      if (!stages.contains(index) && !named.contains(name)) continue;
      stage.weights.emplace_back(name, payload);
      if (stages.size() > 1 && payload.is_parameter)
        stage.stage->tied[name] = std::vector<std::int32_t>(stages.begin(), stages.end());
    }
    for (const auto& entry : model_.constants) {
      if (named.contains(entry.first)) stage.constants.push_back(entry);
    }
  }

  const ir::Model& model_;
  std::map<std::string, std::vector<std::string>> groups_;
  Flow train_;
  Flow eval_;
  std::map<std::string, std::vector<int>> train_uses_;  // weight -> the operators that use it under any name
  std::map<std::string, std::vector<int>> eval_uses_;
  std::vector<std::pair<Span, Span>> spans_;  // of each weight that both graphs use: in training, in eval
  std::vector<std::int64_t> eval_crossing_;   // tensors over each position of the eval graph
};

}  // namespace

std::string cut_text(const std::string& op) { return text("cut before \"", op, "\": "); }

Result<std::vector<Cut>> possible_cuts(const ir::Model& model, const ir::SymbolValues& symbols) {
  return possible_cuts(model, evaluate_shapes(model.train, symbol_values(model.train, symbols)));
}

Result<std::vector<Cut>> possible_cuts(const ir::Model& model, const Shapes& shapes) {
  Slicer slicer(model);
  if (Status status = slicer.analyse(); !status.ok()) return status;
  std::vector<std::int64_t> bytes;
  for (const Shape& shape : shapes) bytes.push_back(shape.bytes());
  const std::vector<std::int64_t> tensors_over =
      crossing_sums(model.train, slicer.train_flow(), std::vector<std::int64_t>(shapes.size(), 1));
  const std::vector<std::int64_t> bytes_over = crossing_sums(model.train, slicer.train_flow(), bytes);
  std::vector<Cut> cuts;
  for (int position = 1; position < static_cast<int>(model.train.operators.size()); ++position) {
    cuts.push_back(
        {position, slicer.refusal({&position, 1}), static_cast<int>(tensors_over[position]), bytes_over[position]});
  }
  return cuts;
}

Result<std::vector<int>> allowed_together(const ir::Model& model, std::span<const int> positions) {
  Slicer slicer(model);
  if (Status status = slicer.analyse(); !status.ok()) return status;
  std::vector<int> allowed;
  for (const int position : positions) {
    allowed.push_back(position);
    if (!slicer.refusal(allowed).empty()) allowed.pop_back();
  }
  return allowed;
}

Result<std::vector<ir::Model>> slice(const ir::Model& model, std::span<const int> positions) {
  Slicer slicer(model);
  if (Status status = slicer.analyse(); !status.ok()) return status;
  return slicer.slice(positions);
}

}  // namespace ravnest::graph
