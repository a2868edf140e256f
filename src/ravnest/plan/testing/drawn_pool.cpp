#include "ravnest/plan/testing/drawn_pool.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>

#include "ravnest/base/text.h"
#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

// One draw per statement: the order in which a compiler evaluates arguments is its own affair.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  int below(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }
  bool chance(int percent) { return below(100) < percent; }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  // Each power of e as likely as another.
  double scale(double low, double high) { return std::exp(between(low, high)); }

 private:
  std::mt19937_64 random_;
};

ModelCosts drawn_model(Draw& draw, int layer_count) {
  std::vector<Layer> layers;
  const bool one_heavy = draw.chance(20);
  const double output_bytes = draw.scale(8, 14);
  for (int i = 0; i < layer_count; ++i) {
    Layer& layer = layers.emplace_back();
    layer.parameters = 1 + draw.below(2'000'000);
    layer.work = 1e6 * (1 + draw.below(1000));
    layer.output_bytes = static_cast<std::int64_t>(draw.between(0, output_bytes));
  }
  if (one_heavy) {
    Layer& heavy = layers[draw.below(layer_count)];
    heavy.work *= 10;
    heavy.parameters *= 5;
  }
  return chain(layers);
}

}  // namespace

DrawnPool drawn_pool(std::uint64_t seed, const DrawnSizes& sizes) {
  Draw draw(seed);
  DrawnPool made;
  const int nodes = sizes.least + draw.below(sizes.most - sizes.least + 1);
  const bool by_time = draw.chance(60);
  const bool large_model = nodes <= 4 && draw.chance(20);
  const int layers = large_model ? 40 + draw.below(60) : 10 + draw.below(8);
  made.costs = drawn_model(draw, layers);
  // From pools that hold the model several times to pools that cannot hold it once.
  const bool tight = draw.chance(40);
  const double plenty = tight ? draw.scale(-0.2, 0.6) : draw.scale(-1.0, 2.0);
  const bool equal_links = draw.chance(20);
  const double usual_mbps = draw.scale(2, 8);
  const bool with_latency = draw.chance(30);
  const bool with_weak = by_time && draw.chance(40);
  const bool few_kinds = nodes > sizes.most_unlike || draw.chance(40);
  std::vector<PoolNode> kinds;
  for (int i = 0; i < (few_kinds ? 3 : nodes); ++i) {
    const double share = draw.between(0.3, 2.0);
    const double own_mbps = draw.scale(2, 8);
    const double gflops = draw.scale(1, 4);
    PoolNode& kind =
        kinds.emplace_back(machine(static_cast<double>(made.costs.memory_bytes) / 1e9 * plenty * share * 2 / nodes,
                                   equal_links ? usual_mbps : own_mbps, 8080));
    if (by_time) kind.compute_gflops = gflops;
    if (with_latency) kind.latency_ms = draw.between(0, 50);
    if (with_weak && draw.chance(30)) {
      const double weakness = draw.scale(1, 5);
      if (draw.chance(70)) kind.compute_gflops = gflops / weakness;
      if (draw.chance(50)) kind.bandwidth_mbps /= weakness;
    }
  }
  for (int i = 0; i < nodes; ++i) {
    PoolNode node = kinds[few_kinds ? draw.below(static_cast<int>(kinds.size())) : i];
    node.address.port = static_cast<std::uint16_t>(8080 + i);
    made.pool.nodes.push_back(node);
  }
  made.options.use_all = by_time && draw.chance(20);
  made.options.min_cluster_size = draw.chance(10) ? 1 : 2;
  if (draw.chance(20)) made.options.training.updates_per_round = 1 + draw.below(10);
  made.options.seed = seed;
  made.kind = text(nodes, few_kinds ? " nodes of few kinds" : " nodes", by_time ? " by time" : " by RAM", ", ", layers,
                   " layers", tight ? ", tight" : "", with_latency ? ", latency" : "", with_weak ? ", weak" : "",
                   made.options.use_all ? ", all used" : "", made.options.min_cluster_size == 1 ? ", any size" : "",
                   equal_links ? ", equal links" : "");
  return made;
}

namespace {

// What stands against a formation, empty where nothing does.
std::string unsound(const DrawnPool& drawn, const Formation& formed) {
  std::vector<int> seen;
  const std::vector<Machine> machines = machines_of(drawn.pool);
  for (const FormedCluster& cluster : formed.clusters) {
    const int size = static_cast<int>(cluster.nodes.size());
    if (size < drawn.options.min_cluster_size) return "a cluster is too small";
    if (static_cast<int>(cluster.cutting.cuts.size()) + 1 != size) return "there are not as many stages as nodes";
    std::vector<Machine> own;
    for (const int node : cluster.nodes) own.push_back(machines[node]);
    const std::vector<StageLoad> loads = stage_loads(drawn.costs, cluster.cutting.cuts);
    if (fullest(loads, own, drawn.options.training) > 1) return "a stage does not fit its node";
    for (const StageLoad& load : loads) {
      if (load.owned_parameters <= 0) return "a stage has no parameter of its own";
    }
    seen.insert(seen.end(), cluster.nodes.begin(), cluster.nodes.end());
  }
  if (seen.size() + formed.spares.size() != drawn.pool.nodes.size()) return "a node is in no cluster and no spare";
  seen.insert(seen.end(), formed.spares.begin(), formed.spares.end());
  std::sort(seen.begin(), seen.end());
  if (std::unique(seen.begin(), seen.end()) != seen.end()) return "a node has two places";
  const bool may_spare = formed.balance == Balance::kTime && !drawn.options.use_all;
  if (!may_spare && !formed.spares.empty()) return "a node that should be used is a spare";
  return "";
}

PlanSpeed speed_of(const DrawnPool& drawn, const Formation& formed) {
  TrainingAssumptions training = drawn.options.training;
  training.clusters = static_cast<int>(formed.clusters.size());
  const std::vector<Machine> machines = machines_of(drawn.pool);
  std::vector<ClusterPrediction> searched;
  std::vector<ClusterPrediction> promised;
  for (const FormedCluster& cluster : formed.clusters) {
    std::vector<Machine> own;
    for (const int node : cluster.nodes) own.push_back(machines[node]);
    const std::vector<StageLoad> loads = stage_loads(drawn.costs, cluster.cutting.cuts);
    searched.push_back(predict_cluster(loads, own, drawn.costs.batch, training));
    promised.push_back(predict_cluster(loads, own, drawn.costs.batch, training, window_for(loads, own, training)));
  }
  return {pool_samples_per_s(searched), pool_samples_per_s(promised)};
}

}  // namespace

Comparison compared_with_brute_force(const DrawnPool& drawn, double wanted_share) {
  Comparison made;
  const Balance balance = compute_known(drawn.pool) ? Balance::kTime : Balance::kParams;
  made.best = BruteForce(drawn.costs, machines_of(drawn.pool), balance, drawn.options).best();
  const Result<Formation> formed = form_clusters(drawn.costs, drawn.pool, drawn.options);
  if (formed.ok() != made.possible()) {
    made.violation = formed.ok() ? "a plan was made where nothing fits" : text("refused: ", formed.status().message());
  } else if (!formed.ok()) {
    static const std::regex kSaysWhat("[0-9.]+ [kMG]?B.*[0-9.]+ [kMG]?B.*would help");
    if (!std::regex_search(formed.status().message(), kSaysWhat))
      made.violation = text("the refusal does not say what is missing: ", formed.status().message());
  } else {
    made.planned = speed_of(drawn, *formed);
    made.spares = static_cast<int>(formed->spares.size());
    made.violation = unsound(drawn, *formed);
    if (made.violation.empty() && made.share() < wanted_share)
      made.violation =
          text("the plan reaches ", made.planned.searched, " samples/s, ", made.share(), " of the best there is");
  }
  if (!made.violation.empty()) made.violation = text(drawn.kind, ": ", made.violation);
  return made;
}

}  // namespace ravnest::plan
