#include "ravnest/graph/frontend/capture/capture.h"

#include <algorithm>

#include "ravnest/graph/frontend/capture/affine.h"
#include "ravnest/graph/frontend/capture/sizes.h"
#include "ravnest/graph/frontend/capture/unify.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/graph/run/random.h"

namespace ravnest::graph::script {
namespace {

// A graph and the constants that it needs.
struct Captured {
  ir::Graph graph;
  std::vector<std::pair<std::string, at::Tensor>> constants;
};

class ModeCapture {
 public:
  ModeCapture(const Subject& subject, Mode mode) : subject_(subject), mode_(mode) {}

  // At all of these batch sizes, of which the first is the one to remember.
  Result<Captured> dynamic(const BatchedLeaves& batch, std::vector<std::int64_t> sizes) const {
    Result<Recording> recording = record(batch, sizes);
    if (!recording.ok()) return recording.status();
    return settle(std::move(*recording), batch, std::move(sizes), true);
  }

  Result<Captured> fixed(const BatchedLeaves& batch) const {
    return settle(record_at(batch, batch.size), batch, {batch.size}, false);
  }

 private:
  Recording record_at(const BatchedLeaves& batch, std::int64_t size) const {
    return subject_.record(mode_, leaves_at(subject_.example, batch, size));
  }

  Result<Recording> record(const BatchedLeaves& batch, const std::vector<std::int64_t>& sizes) const {
    if (subject_.records_sizes) return record_at(batch, batch.size);
    std::vector<Recording> recordings;
    for (const std::int64_t size : sizes) recordings.push_back(record_at(batch, size));
    return unify(recordings, sizes, batch.leaves.front());
  }

  // What the executor checks inputs against; all else is found by running.
  void describe_inputs(ir::Graph& graph, const BatchedLeaves& batch, std::int64_t size, bool dynamic) const {
    std::size_t leaf = 0;
    for (const ir::Input& input : graph.inputs) {
      if (input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed) continue;
      const std::size_t i = leaf++;
      if (input.kind == ir::InputKind::kFixed) continue;
      const Seen seen = look_at(subject_.example.leaves[i]);
      ir::TensorMeta& meta = graph.values[input.value].tensor;
      meta.dtype = seen.dtype;
      for (const std::int64_t each : seen.sizes) meta.sizes.push_back({each, ""});
      const bool varies = std::find(batch.leaves.begin(), batch.leaves.end(), i) != batch.leaves.end();
      if (dynamic && varies) meta.sizes[0] = {size, ir::symbol_text(kBatchSymbol)};
    }
  }

  Result<Captured> settle(Recording recording, const BatchedLeaves& batch, std::vector<std::int64_t> sizes,
                          bool dynamic) const {
    describe_inputs(recording.graph, batch, sizes.front(), dynamic);
    std::vector<std::string> names;
    for (const Weight& weight : subject_.weights) names.push_back(weight.name);
    for (const auto& [name, constant] : recording.constants) names.push_back(name);
    Runs runs{std::move(sizes), {}};
    for (const std::int64_t size : runs.batches) {
      std::vector<at::Tensor> tensors = copies(subject_.weights);
      for (const auto& [name, constant] : recording.constants) tensors.push_back(constant.clone());
      Result<std::vector<Seen>> seen = observe(recording.graph, names, tensors,
                                               leaves_at(subject_.example, batch, size), device_of(subject_.weights));
      if (!seen.ok()) return seen.status();
      runs.seen.push_back(std::move(*seen));
    }
    Result<ir::Graph> graph = settle_sizes(recording, runs);
    if (!graph.ok()) return graph.status();
    return Captured{std::move(*graph), std::move(recording.constants)};
  }

  const Subject& subject_;
  Mode mode_;
};

ir::Model model_of(const Subject& subject, Captured captured) {
  ir::Model model;
  store(subject.weights, model);
  for (auto& [name, constant] : captured.constants) {
    const bool used = std::any_of(captured.graph.inputs.begin(), captured.graph.inputs.end(),
                                  [&, &own = name](const ir::Input& input) {
                                    return input.kind == ir::InputKind::kConstant && input.target == own;
                                  });
    if (used) model.constants.emplace_back(name, to_payloads(std::vector<at::Tensor>{constant}).front());
  }
  model.train = captured.graph;
  model.eval = std::move(captured.graph);
  return model;
}

Result<ir::Model> merge(const Subject& subject, Captured train, Captured eval) {
  return ir::merge_captures(model_of(subject, std::move(train)), model_of(subject, std::move(eval)));
}

struct Checked {
  ir::Model model;
  std::string note;
};

// Both modes with a batch that may change, and the same numbers as the model's at two sizes. A failed result, or a
// std::exception, means that the batch cannot change so; a Refusal, that the model cannot be captured at all.
Result<Checked> capture_dynamic(const Subject& subject, const BatchedLeaves& batch, std::vector<std::int64_t> sizes,
                                KeyedGenerator& generator) {
  Result<Captured> train = ModeCapture(subject, Mode::kTrain).dynamic(batch, sizes);
  if (!train.ok()) return train.status();
  Result<Captured> eval = ModeCapture(subject, Mode::kEval).dynamic(batch, sizes);
  if (!eval.ok()) return eval.status();
  Result<ir::Model> model = merge(subject, std::move(*train), std::move(*eval));
  if (!model.ok()) return model.status();
  Result<std::string> note = check_equivalence(*model, subject, leaves_at(subject.example, batch, sizes[0]), generator);
  if (!note.ok()) throw Refusal{note.status()};
  Result<std::string> other =
      check_equivalence(*model, subject, leaves_at(subject.example, batch, sizes[1]), generator);
  if (!other.ok()) return other.status();
  return Checked{std::move(*model), note->empty() ? std::move(*other) : std::move(*note)};
}

Result<ir::Model> capture_fixed(const Subject& subject, const BatchedLeaves& batch) {
  Result<Captured> train = ModeCapture(subject, Mode::kTrain).fixed(batch);
  if (!train.ok()) return train.status();
  Result<Captured> eval = ModeCapture(subject, Mode::kEval).fixed(batch);
  if (!eval.ok()) return eval.status();
  return merge(subject, std::move(*train), std::move(*eval));
}

Result<Checked> capture_any(const Subject& subject, KeyedGenerator& generator) {
  const BatchedLeaves all = find_batch(subject.example);
  std::vector<BatchedLeaves> candidates;
  if (!all.leaves.empty()) candidates.push_back(all);
  // Two inputs may agree in their first dimension by chance: a square mask, say.
  if (all.leaves.size() > 1) candidates.push_back({{all.leaves.front()}, all.size});
  const std::int64_t base = std::max<std::int64_t>(all.size, 2);
  for (const BatchedLeaves& batch : candidates) {
    // Some models take multiples only.
    for (const auto& sizes : {std::vector{base, base + 1, 2 * base + 1}, std::vector{base, 2 * base, 3 * base}}) {
      try {
        Result<Checked> checked = capture_dynamic(subject, batch, sizes, generator);
        if (checked.ok()) return checked;
      } catch (const std::exception&) {  // the model does not take this size
      }
    }
  }
  Result<ir::Model> model = capture_fixed(subject, all);
  if (!model.ok()) return model.status();
  Result<std::string> note = check_equivalence(*model, subject, leaves_at(subject.example, all, all.size), generator);
  if (!note.ok()) return note.status();
  return Checked{std::move(*model), std::move(*note)};
}

}  // namespace

Result<ir::Model> capture(const Subject& subject, const Logger& log) {
  KeyedGenerator generator(device_of(subject.weights), RandomKey{});
  generator.seed_for(0);  // takes the generator over, to give it back as it was
  const Untouched untouched(subject.weights);
  const c10::AutoGradMode grad(true);
  try {
    Result<Checked> checked = capture_any(subject, generator);
    if (!checked.ok()) return checked.status();
    if (!checked->note.empty()) log.warning("captured, equal to the model within rounding: ", checked->note);
    return std::move(checked->model);
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const std::exception& error) {
    return invalid(message_of(error));
  }
}

}  // namespace ravnest::graph::script
