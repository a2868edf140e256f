#include "ravnest/plan/plan.h"

#include <algorithm>
#include <sstream>

#include "ravnest/base/random_id.h"
#include "ravnest/plan/predict/segments.h"
#include "ravnest/plan/rings.h"

namespace ravnest::plan {
namespace {

// "{0: 'a', 1: 'b'}", as Python prints a dict.
template <class Range, class Print>
std::string dict(const Range& range, Print print) {
  std::vector<std::string> items;
  for (const auto& each : range) items.push_back(print(each));
  return text("{", join(items), "}");
}

class Completion {
 public:
  Completion(const ModelCosts& costs, const Pool& pool, const Formation& formation, const FormOptions& options)
      : costs_(costs), formation_(formation), trainable_(trainable_parameters(costs)), machines_(machines_of(pool)) {
    plan_.id = random_id(16);
    plan_.pool = pool;
    plan_.balance = formation.balance;
    plan_.seed = options.seed;
    plan_.training = options.training;
    plan_.training.clusters = static_cast<int>(formation.clusters.size());
    plan_.batch = costs.batch;
    plan_.memory_bytes = costs.memory_bytes;
    plan_.operators = static_cast<int>(costs.operators.size());
    plan_.unused = formation.unused;
    plan_.spares = formation.spares;
    plan_.notes = pool.notes;
    plan_.notes.insert(plan_.notes.end(), formation.notes.begin(), formation.notes.end());
    if (!compute_known(pool))
      plan_.notes.push_back(
          "the compute of some nodes is not known; the plan assumes it (`ravnest benchmark` measures it)");
  }

  Plan run() {
    std::vector<ClusterPrediction> predictions;
    for (const FormedCluster& cluster : formation_.clusters) predictions.push_back(add(cluster));
    plan_.samples_per_s = pool_samples_per_s(predictions);
    add_rings();
    return std::move(plan_);
  }

 private:
  ClusterPrediction add(const FormedCluster& formed) {
    const int stages = static_cast<int>(formed.nodes.size());
    const std::vector<StageLoad> loads = stage_loads(costs_, formed.cutting.cuts);
    std::vector<Machine> machines;
    for (const int node : formed.nodes) machines.push_back(machines_[node]);
    const int window = window_for(loads, machines, plan_.training);
    ClusterPrediction prediction = predict_cluster(loads, machines, costs_.batch, plan_.training, window);
    PlannedCluster& cluster = plan_.clusters.emplace_back();
    cluster.round_trip_s = prediction.round_trip_s;
    cluster.period_s = prediction.period_s;
    cluster.samples_per_s = prediction.samples_per_s;
    cluster.window = window;
    cluster.slowest_stage = prediction.slowest_stage;
    cluster.limit = prediction.limit;
    for (int s = 0; s < stages; ++s) {
      PlannedStage& stage = cluster.stages.emplace_back();
      stage.node = formed.nodes[s];
      stage.begin = s == 0 ? 0 : formed.cutting.cuts[s - 1];
      stage.end = s + 1 == stages ? plan_.operators : formed.cutting.cuts[s];
      stage.first_operator = costs_.operators[stage.begin].name;
      // Sizes that are computed first belong to no module.
      for (int p = stage.begin; p < stage.end && stage.module.empty(); ++p) stage.module = costs_.operators[p].module;
      stage.parameters = owned_parameters(costs_, stage.begin, stage.end);
      stage.trainable = owned_trainable(costs_, stage.begin, stage.end);
      stage.memory = stage_memory(loads[s], machines[s], {s, stages, window}, plan_.training);
      stage.prediction = prediction.stages[s];
    }
    return prediction;
  }

  const StoredCost& parameter(int place) const { return costs_.stored[trainable_[place]]; }

  std::int64_t elements(const Run& run) const {
    std::int64_t sum = 0;
    for (int i = run.first; i < run.end; ++i) sum += parameter(i).elements;
    return sum;
  }

  void add_rings() {
    std::vector<std::vector<int>> cuts;
    for (const FormedCluster& cluster : formation_.clusters) cuts.push_back(cluster.cutting.cuts);
    const std::vector<std::vector<StageRings>> rings = form_rings(costs_, cuts);
    for (std::size_t c = 0; c < rings.size(); ++c) {
      const PlannedCluster& next = plan_.clusters[(c + 1) % rings.size()];
      for (std::size_t s = 0; s < rings[c].size(); ++s) {
        PlannedStage& stage = plan_.clusters[c].stages[s];
        for (const RingShare& share : rings[c][s].shares)
          stage.rings.push_back({share.ring, parameter_label(parameter(share.run.first).name), elements(share.run)});
        for (const Neighbour& neighbour : rings[c][s].neighbours) {
          stage.next_owners.push_back(
              {next.stages[neighbour.stage].node, parameter_label(parameter(neighbour.run.first).name)});
        }
      }
    }
  }

  const ModelCosts& costs_;
  const Formation& formation_;
  std::vector<int> trainable_;
  std::vector<Machine> machines_;
  Plan plan_;
};

}  // namespace

std::string_view role(int stage, int stages) {
  if (stages == 1) return "solo";
  if (stage == 0) return "root";
  return stage + 1 == stages ? "leaf" : "stem";
}

std::pair<int, int> Plan::place_of(int node) const {
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    for (std::size_t s = 0; s < clusters[c].stages.size(); ++s) {
      if (clusters[c].stages[s].node == node) return {static_cast<int>(c), static_cast<int>(s)};
    }
  }
  return {-1, -1};
}

std::vector<int> Plan::cuts(int cluster) const {
  std::vector<int> positions;
  for (const PlannedStage& stage : clusters[cluster].stages) {
    if (stage.begin > 0) positions.push_back(stage.begin);
  }
  return positions;
}

Plan complete_plan(const ModelCosts& costs, const Pool& pool, const Formation& formation, const FormOptions& options) {
  return Completion(costs, pool, formation, options).run();
}

std::string memory_line(const Plan& plan) { return text("Model Memory:  ", (plan.memory_bytes + 999'999) / 1'000'000); }

std::string node_blocks(const Plan& plan) {
  std::vector<std::string> blocks;
  for (std::size_t node = 0; node < plan.pool.nodes.size(); ++node) {
    const auto [c, s] = plan.place_of(static_cast<int>(node));
    if (c < 0) continue;
    const PlannedStage& stage = plan.clusters[c].stages[s];
    const std::string rings =
        dict(stage.rings, [](const RingPart& part) { return text(part.ring, ": '", part.first_parameter, "'"); });
    const std::string owners = dict(stage.next_owners, [&](const NextOwner& owner) {
      return text("'", plan.pool.nodes[owner.node].address, "': '", owner.first_parameter, "'");
    });
    blocks.push_back(text("Node(", node, ", Cluster(", c, ")) \nself.IP(", plan.pool.nodes[node].address,
                          ") \nRing IDs(", rings, ") \nAddress2Param(", owners, ")"));
  }
  return join(blocks, "\n\n\n");
}

}  // namespace ravnest::plan
