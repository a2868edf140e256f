#include "ravnest/graph/cost/step_memory.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_set>

#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/operator_sets.h"
#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {
namespace {

// Operators whose backward hands on the gradient that it is given, as it is or as a view of it.
bool passes_gradient_on(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {
      "add",     "view",      "_unsafe_view", "reshape",    "flatten",  "unflatten", "transpose", "t",      "permute",
      "movedim", "unsqueeze", "squeeze",      "contiguous", "clone",    "alias",     "cat",       "concat", "stack",
      "sum",     "sub",       "view_as",      "reshape_as", "swapaxes", "numpy_T",   "matrix_H",  "mT",     "mH"};
  return kNames.contains(name);
}

class Walk {
 public:
  Walk(const ir::Graph& graph, const Shapes& shapes, const Storages& storages, const std::vector<bool>& needs)
      : graph_(graph),
        shapes_(shapes),
        storages_(storages),
        needs_(needs),
        last_use_(graph.values.size(), -1),
        holders_(storages.memories.size(), 0),
        gradient_of_(graph.values.size(), -1) {}

  StepMemory run() {
    const int count = static_cast<int>(graph_.operators.size());
    for (int i = 0; i < count; ++i) {
      operators_.emplace_back(graph_.operators[i], shapes_);
      saved_.push_back(saved_by(operators_[i], needs_));
      for (const ir::ValueId value : operators_[i].inputs()) last_use_[value] = i;
    }
    for (const ir::Argument& output : graph_.outputs)
      ir::for_each_ref(output, [&](const ir::Ref& ref) { last_use_[ref.value] = count; });
    count_saved();
    for (int i = 0; i < count; ++i) forward(i);
    seed_gradients();
    for (int i = count - 1; i >= 0; --i) backward(i);
    result_.peak_bytes = peak_;
    return std::move(result_);
  }

 private:
  bool is_pass(int storage) const { return storage >= 0 && storages_.memories[storage].owner == Owner::kPass; }

  void allocate(std::int64_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  void hold(int storage) {
    if (is_pass(storage) && holders_[storage]++ == 0) allocate(storages_.memories[storage].bytes);
  }
  void release(int storage) {
    if (is_pass(storage) && --holders_[storage] == 0) live_ -= storages_.memories[storage].bytes;
  }

  std::set<int> kept_storages(int op) const {
    std::set<int> kept;
    for (const ir::ValueId value : saved_[op].values) {
      const int storage = storages_.of[value];
      if (storage >= 0 && storages_.memories[storage].owner != Owner::kModel) kept.insert(storage);
    }
    return kept;
  }

  void count_saved() {
    const int count = static_cast<int>(graph_.operators.size());
    struct Holders {
      int first = -1;
      int last = -1;
    };
    std::vector<Holders> holders(storages_.memories.size());
    const auto note = [&](int storage, int op) {
      if (holders[storage].first < 0) holders[storage].first = op;
      holders[storage].last = op;
    };
    for (int i = 0; i < count; ++i) {
      result_.saved_bytes.push_back(saved_[i].hidden_bytes);
      for (const int storage : kept_storages(i)) note(storage, i);
      for (const ir::ValueId value : operators_[i].outputs())
        if (last_use_[value] == count && is_pass(storages_.of[value])) note(storages_.of[value], i);
    }
    std::vector<std::int64_t> again(count + 1, 0);
    for (std::size_t storage = 0; storage < holders.size(); ++storage) {
      if (holders[storage].first < 0) continue;
      const std::int64_t bytes = storages_.memories[storage].bytes;
      result_.saved_bytes[holders[storage].first] += bytes;
      again[holders[storage].first + 1] += bytes;
      again[holders[storage].last + 1] -= bytes;
    }
    std::partial_sum(again.begin(), again.end(), again.begin());
    result_.saved_again_bytes = std::move(again);
  }

  void forward(int i) {
    for (const ir::ValueId value : operators_[i].outputs()) hold(storages_.of[value]);
    for (const int storage : kept_storages(i)) hold(storage);
    allocate(saved_[i].hidden_bytes + saved_[i].forward_workspace);
    live_ -= saved_[i].forward_workspace;
    std::set<ir::ValueId> ended;
    for (const ir::ValueId value : operators_[i].inputs())
      if (last_use_[value] == i) ended.insert(value);
    for (const ir::ValueId value : operators_[i].outputs())
      if (last_use_[value] < 0) ended.insert(value);
    for (const ir::ValueId value : ended) release(storages_.of[value]);
  }

  // Gradients have memory of their own, which several may share.
  int new_gradient(std::int64_t bytes) {
    gradients_.push_back({bytes, 0});
    allocate(bytes);
    return static_cast<int>(gradients_.size()) - 1;
  }
  void release_gradient(ir::ValueId value) {
    const int gradient = gradient_of_[value];
    if (gradient >= 0 && --gradients_[gradient].holders == 0) live_ -= gradients_[gradient].bytes;
    gradient_of_[value] = -1;
  }

  void seed_gradients() {
    for (const ir::Argument& output : graph_.outputs) {
      ir::for_each_ref(output, [&](const ir::Ref& ref) {
        if (needs_[ref.value] && gradient_of_[ref.value] < 0) give(ref.value, new_gradient(shapes_[ref.value].bytes()));
      });
    }
  }

  // One more gradient for the value. The sum is made in place where nobody else holds what is there.
  void give(ir::ValueId value, int gradient) {
    ++gradients_[gradient].holders;
    const int present = gradient_of_[value];
    if (present < 0) {
      gradient_of_[value] = gradient;
      return;
    }
    if (gradients_[present].holders > 1) {
      const int sum = new_gradient(shapes_[value].bytes());
      ++gradients_[sum].holders;
      release_gradient(value);
      gradient_of_[value] = sum;
    }
    if (--gradients_[gradient].holders == 0) live_ -= gradients_[gradient].bytes;
  }

  int gradient_for(int i, ir::ValueId input, const std::vector<ir::ValueId>& outputs) {
    const bool handed_on = passes_gradient_on(operators_[i].name()) && outputs.size() == 1 &&
                           shapes_[input].elements() <= shapes_[outputs.front()].elements();
    const bool same_size = shapes_[input].elements() == shapes_[outputs.front()].elements();
    const bool is_part =
        operators_[i].name() == "cat" || operators_[i].name() == "concat" || operators_[i].name() == "stack";
    if (handed_on && (same_size || is_part)) return gradient_of_[outputs.front()];
    return new_gradient(shapes_[input].bytes());
  }

  void backward(int i) {
    std::vector<ir::ValueId> outputs;
    for (const ir::ValueId value : operators_[i].outputs())
      if (gradient_of_[value] >= 0) outputs.push_back(value);
    if (outputs.empty()) return;
    std::set<ir::ValueId> inputs;
    for (const ir::ValueId value : operators_[i].inputs())
      if (needs_[value]) inputs.insert(value);
    allocate(saved_[i].backward_workspace);
    std::vector<std::pair<ir::ValueId, int>> made;
    for (const ir::ValueId value : inputs) made.emplace_back(value, gradient_for(i, value, outputs));
    for (const auto& [value, gradient] : made) ++gradients_[gradient].holders;
    for (const ir::ValueId value : outputs) release_gradient(value);
    for (const auto& [value, gradient] : made) {
      --gradients_[gradient].holders;
      give(value, gradient);
    }
    live_ -= saved_[i].backward_workspace + saved_[i].hidden_bytes;
    for (const int storage : kept_storages(i)) release(storage);
  }

  struct Gradient {
    std::int64_t bytes = 0;
    int holders = 0;
  };

  const ir::Graph& graph_;
  const Shapes& shapes_;
  const Storages& storages_;
  const std::vector<bool>& needs_;
  std::vector<ShapedOperator> operators_;
  std::vector<Saved> saved_;
  std::vector<int> last_use_;  // per value; -1: none
  std::vector<int> holders_;   // per storage: values in use and operators that keep it
  std::vector<Gradient> gradients_;
  std::vector<int> gradient_of_;  // per value; -1: none yet, or no more
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  StepMemory result_;
};

}  // namespace

StepMemory walk_step(const ir::Graph& graph, const Shapes& shapes, const Storages& storages,
                     const std::vector<bool>& needs_gradient) {
  return Walk(graph, shapes, storages, needs_gradient).run();
}

}  // namespace ravnest::graph
