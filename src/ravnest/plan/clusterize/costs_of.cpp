#include <algorithm>
#include <unordered_map>

#include "ravnest/graph/cost/storages.h"
#include "ravnest/graph/cut/flow.h"
#include "ravnest/graph/cut/slice.h"
#include "ravnest/plan/clusterize/clusterize.h"

namespace ravnest::plan {
namespace {

// Exchange rates between FLOPs, as `ravnest benchmark` counts them, and what else takes time in a training step. Fitted
// on a CPU to steps of eight models, which they give mostly to within a factor of two: benchmarks/predicted_steps.py.
constexpr double kFlopsPerByte = 12;     // read or written by an operator and its backward
constexpr double kFlopsPerCall = 3e6;    // to call an operator and its backward
constexpr double kFlopsPerUpdated = 80;  // for the optimizer to update an element

class Costs {
 public:
  Costs(const ir::Model& model, const graph::Profile& profile, const graph::Flow& flow)
      : model_(model), profile_(profile), graph_(model.train), flow_(flow) {}

  ModelCosts run(const TrainingAssumptions& training) {
    add_operators();
    add_stored();
    add_sent();
    costs_.batch = batch();
    costs_.memory_bytes =
        profile_.peak_training_bytes +
        static_cast<std::int64_t>(training.optimizer_state * static_cast<double>(profile_.gradient_bytes));
    return std::move(costs_);
  }

 private:
  int last_operator() const { return static_cast<int>(graph_.operators.size()) - 1; }

  void add_operators() {
    for (std::size_t i = 0; i < profile_.operators.size(); ++i) {
      const graph::OperatorProfile& each = profile_.operators[i];
      OperatorCost& made = costs_.operators.emplace_back();
      made.name = each.name;
      made.module = each.module;
      made.saved_bytes = each.saved_bytes;
      made.working_bytes = 2 * each.output_bytes;
      const auto flops = static_cast<double>(each.forward_flops + each.backward_flops);
      // Forward writes its results and reads as much; backward twice that.
      const auto bytes = 6 * static_cast<double>(each.output_bytes);
      made.work = flops + kFlopsPerByte * bytes + kFlopsPerCall;
    }
    for (const graph::CutProfile& cut : profile_.cuts) {
      OperatorCost& behind = costs_.operators[cut.position];
      behind.cut_allowed = cut.refusal.empty();
      behind.refusal = cut.refusal.substr(std::min(cut.refusal.size(), graph::cut_text(behind.name).size()));
      behind.again_bytes = cut.saved_again_bytes;
    }
  }

  // Uses by name, under the graph's own input for it.
  std::unordered_map<std::string_view, const std::vector<int>*> uses() const {
    std::unordered_map<std::string_view, const std::vector<int>*> uses;
    for (const ir::Input& input : graph_.inputs) {
      if (input.kind == ir::InputKind::kUser || input.value < 0) continue;
      uses.emplace(input.target, &flow_.used_at[input.value]);
    }
    return uses;
  }

  // Counts of batches are changed too, but a mean of counts means nothing.
  bool is_statistic(const std::string& name, const archive::Payload& payload) const {
    return !payload.is_parameter && flow_.changed.contains(name) && is_floating(payload.dtype);
  }

  void add_stored() {
    const auto uses = this->uses();
    std::unordered_map<const archive::Storage*, std::vector<std::size_t>> by_storage;
    std::vector<const archive::Payload*> payloads;
    const auto add = [&](const std::string& name, const archive::Payload& payload) {
      std::vector<int> used_at;
      if (const auto found = uses.find(name); found != uses.end()) used_at = *found->second;
      for (int& position : used_at) position = std::min(position, last_operator());
      std::vector<std::size_t>& neighbours = by_storage[payload.storage.get()];
      for (const std::size_t twin : neighbours) {
        if (!archive::same_tensor(*payloads[twin], payload)) continue;
        std::vector<int>& all = costs_.stored[twin].used_at;
        all.insert(all.end(), used_at.begin(), used_at.end());
        return;
      }
      neighbours.push_back(costs_.stored.size());
      payloads.push_back(&payload);
      const std::int64_t elements = archive::element_count(payload);
      costs_.stored.push_back({name, elements * static_cast<std::int64_t>(item_size(payload.dtype)), elements,
                               payload.is_parameter, payload.is_parameter && payload.requires_grad, std::move(used_at),
                               is_statistic(name, payload)});
    };
    for (const auto& [name, payload] : model_.weights) add(name, payload);
    for (const auto& [name, payload] : model_.constants) add(name, payload);
    // A weight that nobody uses goes with the one before it, as slicing does.
    int previous = 0;
    for (StoredCost& each : costs_.stored) {
      std::sort(each.used_at.begin(), each.used_at.end());
      if (each.used_at.empty()) each.used_at.push_back(previous);
      previous = each.used_at.front();
    }
    std::stable_sort(costs_.stored.begin(), costs_.stored.end(),
                     [](const StoredCost& a, const StoredCost& b) { return a.used_at.front() < b.used_at.front(); });
    for (const StoredCost& each : costs_.stored) {
      if (each.trainable)
        costs_.operators[each.used_at.front()].work += kFlopsPerUpdated * static_cast<double>(each.elements);
    }
  }

  void add_sent() {
    const std::vector<bool> needs_gradient = graph::gradient_flow(model_, graph_);
    for (std::size_t value = 0; value < graph_.values.size(); ++value) {
      if (!graph::is_sent(graph_, flow_, value)) continue;
      const std::int64_t bytes = profile_.shapes[value].bytes();
      costs_.sent.push_back({flow_.defined_at[value], flow_.used_at[value], bytes, needs_gradient[value] ? bytes : 0});
    }
  }

  // The size of the first dimension of the first tensor that the model is called with.
  std::int64_t batch() const {
    for (const ir::Input& input : graph_.inputs) {
      if (input.kind != ir::InputKind::kUser || graph_.values[input.value].kind != ir::ValueKind::kTensor) continue;
      const std::vector<std::int64_t>& sizes = profile_.shapes[input.value].sizes;
      if (!sizes.empty()) return std::max<std::int64_t>(1, sizes.front());
    }
    return 1;
  }

  const ir::Model& model_;
  const graph::Profile& profile_;
  const ir::Graph& graph_;
  const graph::Flow& flow_;
  ModelCosts costs_;
};

}  // namespace

Result<ModelCosts> costs_of(const ir::Model& model, const graph::Profile& profile,
                            const TrainingAssumptions& training) {
  const Result<graph::Flow> flow = graph::analyse_flow(model.train);
  if (!flow.ok()) return flow.status();
  return Costs(model, profile, *flow).run(training);
}

}  // namespace ravnest::plan
