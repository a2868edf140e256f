#include "ravnest/graph/cut/flow.h"

#include <algorithm>
#include <climits>
#include <map>
#include <numeric>

#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/operators.h"

namespace ravnest::graph {
namespace {

// Values that may share memory, as disjoint sets.
class AliasSets {
 public:
  explicit AliasSets(std::size_t values) : parent_(values) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int value) {
    while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
    return value;
  }
  void join(int a, int b) { parent_[find(a)] = find(b); }

 private:
  std::vector<int> parent_;
};

class Analysis {
 public:
  Analysis(const ir::Graph& graph, const std::set<std::string>& changed_elsewhere)
      : graph_(graph),
        changed_elsewhere_(changed_elsewhere),
        aliases_(graph.values.size()),
        written_at_(graph.values.size()) {
    flow_.defined_at.assign(graph.values.size(), -1);
    flow_.used_at.resize(graph.values.size());
    flow_.inputs.assign(graph.values.size(), nullptr);
    flow_.anywhere.assign(graph.values.size(), false);
    flow_.refusals.resize(graph.operators.size() + 1);
  }

  Result<Flow> run() {
    for (const ir::Input& input : graph_.inputs) {
      if (input.value >= 0) flow_.inputs[input.value] = &input;
    }
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (Status status = visit(static_cast<int>(i)); !status.ok()) return status;
    }
    const int end = static_cast<int>(graph_.operators.size());
    for (const ir::Argument& output : graph_.outputs)
      ir::for_each_ref(output, [&](ir::Ref ref) { use(ref.value, end); });
    find_free_values();
    refuse_written_memory();
    return std::move(flow_);
  }

 private:
  void use(ir::ValueId value, int position) {
    std::vector<int>& uses = flow_.used_at[value];
    if (uses.empty() || uses.back() != position) uses.push_back(position);
  }

  Status visit(int position) {
    const ir::Operator& op = graph_.operators[position];
    Result<Effects> effects = effects_of(op);
    if (!effects.ok()) return effects.status().with_context(text("at \"", op.name, "\""));
    for (const ir::NamedArgument& input : op.inputs)
      ir::for_each_ref(input.value, [&](ir::Ref ref) { use(ref.value, position); });
    for (const ir::Argument& output : op.outputs)
      ir::for_each_ref(output, [&](ir::Ref ref) { flow_.defined_at[ref.value] = position; });
    for (const auto& [output, input] : effects->aliases) aliases_.join(output, input);
    for (const ir::ValueId value : effects->writes) written_at_[value].push_back(position);
    flow_.pure.push_back(effects->writes.empty() && !effects->random);
    return {};
  }

  bool memory_is_written(ir::ValueId value) { return written_sets_.contains(aliases_.find(value)); }

  // A value is free to be made again anywhere if its operator has no effects and all that it reads is free. Constants
  // and buffers that nobody writes are; the user's tensors and parameters are not.
  void find_free_values() {
    for (std::size_t value = 0; value < written_at_.size(); ++value) {
      if (!written_at_[value].empty()) written_sets_[aliases_.find(static_cast<int>(value))] = true;
    }
    for (std::size_t value = 0; value < graph_.values.size(); ++value) {
      const ir::Input* input = flow_.inputs[value];
      if (input == nullptr) continue;
      const bool is_data = input->kind == ir::InputKind::kBuffer || input->kind == ir::InputKind::kConstant;
      const bool changed = memory_is_written(static_cast<ir::ValueId>(value));
      if (changed && input->kind != ir::InputKind::kUser) flow_.changed.insert(input->target);
      flow_.anywhere[value] = is_data && !changed && !changed_elsewhere_.contains(input->target);
    }
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      bool free = flow_.pure[i];
      for (const ir::NamedArgument& input : graph_.operators[i].inputs) {
        ir::for_each_ref(input.value, [&](ir::Ref ref) {
          free = free && (graph_.values[ref.value].kind != ir::ValueKind::kTensor || flow_.anywhere[ref.value]);
        });
      }
      for (const ir::Argument& output : graph_.operators[i].outputs) {
        ir::for_each_ref(output, [&](ir::Ref ref) {
          flow_.anywhere[ref.value] =
              free && graph_.values[ref.value].kind == ir::ValueKind::kTensor && !memory_is_written(ref.value);
        });
      }
    }
  }

  struct Life {
    int first = INT_MAX;  // where the memory is made; for what the model owns, its first use
    int last_write = -1;
    int last_use = -1;
    bool owned = false;      // by the model: a buffer, parameter or constant
    ir::ValueId named = -1;  // what it is known by: the model's tensor, else the value that was made first
  };

  void refuse_written_memory() {
    std::map<int, Life> lives;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const auto value = static_cast<ir::ValueId>(v);
      if (!memory_is_written(value)) continue;
      Life& life = lives[aliases_.find(value)];
      const ir::Input* input = flow_.inputs[value];
      const bool owned = input != nullptr && input->kind != ir::InputKind::kUser;
      life.owned = life.owned || owned;
      if (owned || life.named < 0 || (!life.owned && flow_.defined_at[value] < flow_.defined_at[life.named]))
        life.named = value;
      if (owned) {
        if (!flow_.used_at[value].empty()) life.first = std::min(life.first, flow_.used_at[value].front());
      } else {
        life.first = std::min(life.first, flow_.defined_at[value]);
      }
      if (!flow_.used_at[value].empty()) life.last_use = std::max(life.last_use, flow_.used_at[value].back());
      if (!written_at_[value].empty()) life.last_write = std::max(life.last_write, written_at_[value].back());
    }
    for (const auto& [set, life] : lives) {
      const int last = life.owned ? life.last_use : life.last_write;
      const std::string& name = life.owned ? flow_.inputs[life.named]->target : graph_.values[life.named].name;
      const ir::Operator& writer = graph_.operators[life.last_write];
      const std::string module = ir::module_path(writer);
      const std::string by = text("\"", writer.name, "\"", module.empty() ? "" : " in ", module);
      const std::string reason =
          life.owned ? text("between the uses of \"", name, "\", which is changed in place by ", by)
                     : text("between the making of \"", name, "\" and its last change in place, by ", by);
      for (int p = life.first + 1; p <= last && p < static_cast<int>(graph_.operators.size()); ++p) {
        if (p > 0 && flow_.refusals[p].empty()) flow_.refusals[p] = reason;
      }
    }
  }

  const ir::Graph& graph_;
  const std::set<std::string>& changed_elsewhere_;
  Flow flow_;
  AliasSets aliases_;
  std::vector<std::vector<int>> written_at_;
  std::map<int, bool> written_sets_;
};

}  // namespace

Result<Flow> analyse_flow(const ir::Graph& graph, const std::set<std::string>& changed_elsewhere) {
  return Analysis(graph, changed_elsewhere).run();
}

bool is_sent(const ir::Graph& graph, const Flow& flow, std::size_t value) {
  if (graph.values[value].kind != ir::ValueKind::kTensor || flow.anywhere[value] || flow.used_at[value].empty())
    return false;
  return flow.inputs[value] == nullptr || flow.inputs[value]->kind == ir::InputKind::kUser;
}

std::vector<std::int64_t> crossing_sums(const ir::Graph& graph, const Flow& flow,
                                        const std::vector<std::int64_t>& amounts) {
  std::vector<std::int64_t> sums(graph.operators.size() + 2, 0);
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    if (!is_sent(graph, flow, value)) continue;
    sums[flow.defined_at[value] + 1] += amounts[value];
    sums[flow.used_at[value].back() + 1] -= amounts[value];
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  sums.pop_back();
  return sums;
}

}  // namespace ravnest::graph
