#include "ravnest/plan/sane.h"

#include "ravnest/plan/pool/range.h"

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
