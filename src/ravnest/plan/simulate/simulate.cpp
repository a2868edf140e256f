#include "ravnest/plan/simulate/simulate.h"

#include <algorithm>

#include "ravnest/plan/pool/range.h"
#include "ravnest/plan/predict/segments.h"

namespace ravnest::plan {
namespace {

// The pool as events have left it. Ids stay; who left is gone.
class ChangingPool {
 public:
  explicit ChangingPool(const Pool& start) {
    for (const PoolNode& node : start.nodes) nodes_.emplace_back(node);
    know_all_compute();
  }

  void apply(const Join& join) {
    nodes_.insert(nodes_.end(), join.nodes.begin(), join.nodes.end());
    know_all_compute();
  }
  void apply(const Leave& leave) {
    for (const int node : leave.nodes) nodes_[node].reset();
  }
  void apply(const LinkChange& change) {
    for (const int node : change.nodes) {
      if (change.bandwidth_mbps) nodes_[node]->bandwidth_mbps = *change.bandwidth_mbps;
      if (change.latency_ms) nodes_[node]->latency_ms = change.latency_ms;
    }
  }
  void apply(const ComputeChange& change) {
    for (const int node : change.nodes) {
      double& compute = *nodes_[node]->compute_gflops;
      compute = std::clamp(compute * change.factor, kComputeGflops.least, kComputeGflops.most);
    }
  }

  // Those present, in the order of their ids.
  std::vector<int> ids() const {
    std::vector<int> present;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]) present.push_back(static_cast<int>(i));
    }
    return present;
  }
  Pool pool() const {
    Pool present;
    for (const int node : ids()) present.nodes.push_back(*nodes_[node]);
    return present;
  }
  std::vector<std::optional<Machine>> machines() const {
    std::vector<std::optional<Machine>> all(nodes_.size());
    const std::vector<int> present = ids();
    const std::vector<Machine> machines = machines_of(pool());
    for (std::size_t i = 0; i < present.size(); ++i) all[present[i]] = machines[i];
    return all;
  }
  bool someone_left() const { return ids().size() < nodes_.size(); }

 private:
  // Once one of them slows down, its figure must not become what is assumed of the others.
  void know_all_compute() {
    const std::vector<std::optional<Machine>> assumed = machines();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] && !nodes_[i]->compute_gflops) nodes_[i]->compute_gflops = assumed[i]->flops_per_s / 1e9;
    }
  }

  std::vector<std::optional<PoolNode>> nodes_;
};

class Simulation {
 public:
  Simulation(const ModelCosts& costs, const Scenario& scenario, const std::function<bool(double)>& progress)
      : costs_(costs), scenario_(scenario), progress_(progress), pool_(scenario.pool), form_(scenario.form) {
    if (!form_.balance) form_.balance = compute_known(scenario.pool) ? Balance::kTime : Balance::kParams;
    form_.progress = [this](double share) { return report(share); };
  }

  Result<std::vector<SimulatedStep>> run() {
    Result<std::vector<PlacedCluster>> start = planned_anew();
    if (cancelled_) return interrupted();
    if (!start.ok()) return start.status().with_context("there is no plan for the pool of the start");
    kept_ = std::move(start).value();
    std::vector<SimulatedStep> steps = {step("start", kept_)};
    for (const Event& event : scenario_.events) {
      ++done_;
      share_ = 0;
      std::visit([this](const auto& change) { apply(change); }, event.change);
      const Result<std::vector<PlacedCluster>> anew = planned_anew();
      if (cancelled_) return interrupted();
      steps.push_back(step(event.name, anew));
    }
    return steps;
  }

 private:
  template <class Change>
  void apply(const Change& change) {
    pool_.apply(change);
  }
  void apply(const AveragingChange& change) { form_.training.updates_per_round = change.updates_per_round; }

  // The search may begin anew within one step; progress does not go back.
  bool report(double share) {
    share_ = std::max(share_, share);
    const double steps = static_cast<double>(scenario_.events.size()) + 1;
    if (!cancelled_ && progress_ && !progress_((done_ + share_) / steps)) cancelled_ = true;
    return !cancelled_;
  }

  static Status interrupted() { return cancelled("the simulation was interrupted"); }

  Result<std::vector<PlacedCluster>> planned_anew() {
    if (!report(0)) return interrupted();
    const Result<Formation> formed = form_clusters(costs_, pool_.pool(), form_);
    if (!formed.ok()) {
      return pool_.someone_left() ? invalid(formed.status().message(), " (nodes are counted without those that left)")
                                  : formed.status();
    }
    const std::vector<int> ids = pool_.ids();
    const std::vector<std::optional<Machine>> machines = pool_.machines();
    TrainingAssumptions training = form_.training;
    training.clusters = static_cast<int>(formed->clusters.size());
    std::vector<PlacedCluster> clusters;
    for (const FormedCluster& cluster : formed->clusters) {
      PlacedCluster& placed = clusters.emplace_back();
      std::vector<Machine> own;
      for (const int node : cluster.nodes) {
        placed.nodes.push_back(ids[node]);
        own.push_back(*machines[ids[node]]);
      }
      placed.loads = stage_loads(costs_, cluster.cutting.cuts);
      placed.window = window_for(placed.loads, own, training);
    }
    return clusters;
  }

  SimulatedStep step(const std::string& event, const Result<std::vector<PlacedCluster>>& anew) const {
    const std::vector<std::optional<Machine>> machines = pool_.machines();
    SimulatedStep made;
    made.event = event;
    made.nodes = static_cast<int>(pool_.ids().size());
    made.kept = rate(kept_, machines, costs_.batch, form_.training);
    if (anew.ok()) {
      made.anew = rate(*anew, machines, costs_.batch, form_.training);
    } else {
      made.no_plan = anew.status().message();
    }
    return made;
  }

  const ModelCosts& costs_;
  const Scenario& scenario_;
  const std::function<bool(double)>& progress_;
  ChangingPool pool_;
  FormOptions form_;
  std::vector<PlacedCluster> kept_;
  int done_ = 0;      // steps
  double share_ = 0;  // of the present one
  bool cancelled_ = false;
};

}  // namespace

PlanRate rate(const std::vector<PlacedCluster>& clusters, const std::vector<std::optional<Machine>>& machines,
              std::int64_t batch, const TrainingAssumptions& training) {
  PlanRate result;
  std::vector<int> training_clusters;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const std::vector<int>& nodes = clusters[c].nodes;
    const auto lost = std::find_if(nodes.begin(), nodes.end(), [&](int node) { return !machines[node]; });
    if (lost == nodes.end()) {
      training_clusters.push_back(static_cast<int>(c));
      continue;
    }
    ++result.still_clusters;
    if (result.first_lost < 0) result.first_lost = *lost;
  }
  result.clusters = static_cast<int>(training_clusters.size());
  TrainingAssumptions among_them = training;
  among_them.clusters = result.clusters;
  std::vector<ClusterPrediction> predictions;
  for (const int c : training_clusters) {
    std::vector<Machine> own;
    for (const int node : clusters[c].nodes) own.push_back(*machines[node]);
    const ClusterPrediction& prediction =
        predictions.emplace_back(predict_cluster(clusters[c].loads, own, batch, among_them, clusters[c].window));
    result.nodes += static_cast<int>(own.size());
    if (prediction.period_s <= result.period_s && result.slowest_cluster >= 0) continue;
    result.slowest_cluster = c;
    result.slowest_node = clusters[c].nodes[prediction.slowest_stage];
    result.limit = prediction.limit;
    result.period_s = prediction.period_s;
  }
  result.samples_per_s = pool_samples_per_s(predictions);
  return result;
}

Result<std::vector<SimulatedStep>> simulate(const ModelCosts& costs, const Scenario& scenario,
                                            const std::function<bool(double)>& progress) {
  return Simulation(costs, scenario, progress).run();
}

}  // namespace ravnest::plan
