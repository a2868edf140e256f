#include "ravnest/plan/sane.h"

#include <algorithm>

#include "ravnest/base/units.h"
#include "ravnest/plan/range.h"

namespace ravnest::plan {
namespace {

// The first figure that cannot be, as a sentence; empty where all can.
class Figures {
 public:
  void check(std::string_view what, double value) {
    if (complaint_.empty() && !kPlannedFigure.has(value)) complaint_ = text(what, " is ", value);
  }
  void check(std::string_view what, std::int64_t value) { check(what, static_cast<double>(value)); }
  void check(int node, const StageMemory& memory) {
    const std::string name = node_name(node);
    check(name + "'s memory of weights", memory.weights);
    check(name + "'s memory of gradients", memory.gradients);
    check(name + "'s memory of the optimizer", memory.optimizer);
    check(name + "'s memory of versions", memory.versions);
    check(name + "'s memory of activations", memory.activations);
    check(name + "'s memory of its process", memory.process);
    // As numbers that cannot overflow.
    double sum = 0;
    for (const std::int64_t part :
         {memory.weights, memory.gradients, memory.optimizer, memory.versions, memory.activations, memory.process})
      sum += static_cast<double>(part);
    check(name + "'s memory", sum);
  }
  void check(int node, const StagePrediction& stage) {
    const std::string name = node_name(node);
    check(name + "'s time to compute", stage.compute_s);
    check(name + "'s time to send", stage.send_s);
    check(name + "'s time to receive", stage.receive_s);
    check(name + "'s bytes of averaging", stage.averaging_bytes);
    check(name + "'s bytes out", stage.bytes_out);
    check(name + "'s bytes in", stage.bytes_in);
    check(name + "'s rate out", stage.out_bytes_per_s);
    check(name + "'s rate in", stage.in_bytes_per_s);
  }

  const std::string& complaint() const { return complaint_; }

 private:
  std::string complaint_;
};

}  // namespace

Status check_options(const FormOptions& options, int nodes) {
  const auto first = [](std::initializer_list<Status> all) {
    const auto bad = std::find_if(all.begin(), all.end(), [](const Status& each) { return !each.ok(); });
    return bad == all.end() ? Status() : *bad;
  };
  const TrainingOptions& training = options.training;
  Status range = first({expect_within(kClusterSize, "min_cluster_size", options.min_cluster_size),
                        expect_within(kUpdatesPerRound, "the time between two averagings", training.updates_per_round),
                        expect_within(kOptimizerState, "the optimizer's state", training.optimizer_state)});
  if (!range.ok()) return range;
  if (!(training.sent_share > 0 && training.sent_share <= 2))
    return invalid("what stages send cannot take ", training.sent_share, " bytes per byte");
  // One machine alone trains alone: nobody has to ask for that.
  if (options.min_cluster_size > nodes && nodes > 1)
    return invalid("a cluster must have at least ", options.min_cluster_size,
                   " nodes (min_cluster_size), but the pool has ", nodes,
                   "; a smaller min_cluster_size, or more nodes, would help");
  return {};
}

Status check_sums(const ModelCosts& costs, int nodes, const TrainingOptions& training) {
  double bytes = static_cast<double>(costs.memory_bytes);
  bool negative = costs.memory_bytes < 0;
  const auto add = [&](std::int64_t part) {
    bytes += static_cast<double>(part);
    negative = negative || part < 0;
  };
  for (const OperatorCost& each : costs.operators) {
    add(each.saved_bytes);
    add(each.again_bytes);
    add(each.working_bytes);
    negative = negative || !kPlannedFigure.has(each.work);
  }
  for (const StoredCost& each : costs.stored) {
    add(each.bytes);
    add(each.elements);
  }
  for (const SentCost& each : costs.sent) {
    add(each.bytes);
    add(each.gradient_bytes);
  }
  const double most = bytes * (static_cast<double>(kMostPassesPerStage) * nodes + training.optimizer_state + 4);
  if (!negative && kPlannedFigure.has(most)) return {};
  return invalid("the sizes of the model's tensors make no sense (they add up to ", quantity(bytes, "B"),
                 "); does the example have the batch size that you will train with?");
}

Status check_figures(const Plan& plan) {
  Figures figures;
  figures.check("the memory of the model", plan.memory_bytes);
  figures.check("the pool's rate", plan.samples_per_s);
  for (const PlannedCluster& cluster : plan.clusters) {
    figures.check("a cluster's round trip", cluster.round_trip_s);
    figures.check("a cluster's time per batch", cluster.period_s);
    figures.check("a cluster's rate", cluster.samples_per_s);
    for (const PlannedStage& stage : cluster.stages) {
      figures.check(stage.node, stage.memory);
      figures.check(stage.node, stage.prediction);
      figures.check("a stage's parameters", stage.parameters);
      figures.check("a stage's trained parameters", stage.trainable);
    }
  }
  if (figures.complaint().empty()) return {};
  return internal("the plan makes no sense: ", figures.complaint());
}

}  // namespace ravnest::plan
