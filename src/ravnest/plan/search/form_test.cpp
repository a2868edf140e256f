#include "ravnest/plan/search/form.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "ravnest/plan/plan.h"
#include "ravnest/plan/search/exhaustive.h"
#include "ravnest/plan/search/genetic.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using testing::ElementsAre;

TEST(Form, ThreeEqualNodesAreOneClusterInOrderForEverySeed) {
  for (int seed = 0; seed < 20; ++seed) {
    FormOptions options;
    options.seed = seed;
    const Result<Formation> formed = form_clusters(digits(), equal_pool(3, 8, 10), options);
    ASSERT_TRUE(formed.ok()) << formed.status();
    ASSERT_EQ(formed->clusters.size(), 1U);
    EXPECT_THAT(formed->clusters[0].nodes, ElementsAre(0, 1, 2));
    EXPECT_TRUE(formed->notes.empty());
  }
}

TEST(Form, WhoStopsTheSearchGetsNoPlanAndNoOtherError) {
  FormOptions options;
  options.progress = [](double) { return false; };
  EXPECT_EQ(form_clusters(digits(), equal_pool(9, 8, 10), options).status().code(), Code::kCancelled);
  EXPECT_EQ(form_clusters(digits(), equal_pool(9, 1e-6, 10), options).status().code(), Code::kCancelled);
}

// An independent judge: the best pool over all partitions of the nodes, by time of all sets of nodes, and all orders
// within clusters.
class BruteForce {
 public:
  BruteForce(const ModelCosts& costs, std::vector<Machine> machines, Balance balance)
      : segments_(costs, cut_positions(costs, 1024)),
        machines_(std::move(machines)),
        balance_(balance),
        batch_(static_cast<double>(costs.batch)) {}

  // Samples per second, or 0 where nothing fits.
  double best() {
    clusters_.clear();
    best_ = 0;
    by_mask_.assign(std::size_t{1} << machines_.size(), nullptr);
    partition(0);
    return best_;
  }

 private:
  // The periods of a set of nodes in its best order, per number of clusters; empty where it cannot hold the model.
  // By RAM alone the order of the pool is kept, unless only another one fits. Equal machines are not told apart.
  const std::vector<double>& periods(unsigned mask) {
    if (by_mask_[mask] == nullptr) by_mask_[mask] = &periods_of(mask);
    return *by_mask_[mask];
  }

  const std::vector<double>& periods_of(unsigned mask) {
    std::vector<int> order;
    for (int i = 0; i < static_cast<int>(machines_.size()); ++i) {
      if ((mask >> i & 1) != 0)
        order.push_back(
            static_cast<int>(std::find(machines_.begin(), machines_.end(), machines_[i]) - machines_.begin()));
    }
    if (balance_ == Balance::kTime) std::sort(order.begin(), order.end());
    const auto known = known_.find(order);
    if (known != known_.end()) return known->second;
    const std::vector<int> key = order;
    std::vector<double> best;
    consider(order, best);
    if (balance_ == Balance::kTime || best.empty()) {
      std::sort(order.begin(), order.end());
      do {
        consider(order, best);
      } while (std::next_permutation(order.begin(), order.end()));
    }
    return known_[key] = best;
  }

  void consider(const std::vector<int>& order, std::vector<double>& best) {
    std::vector<Machine> machines;
    for (const int node : order) machines.push_back(machines_[node]);
    // The others are in clusters of at least two.
    for (std::size_t k = 1; k <= 1 + (machines_.size() - order.size()) / 2; ++k) {
      if (k == 1 && order.size() < machines_.size() && balance_ != Balance::kTime) continue;
      TrainingOptions training;
      training.clusters = static_cast<int>(k);
      for (const Balance balance : {balance_, Balance::kTime}) {
        const std::optional<Cutting> cutting = cut(segments_, machines, balance, training);
        if (!cutting || !cutting->fits()) continue;
        if (best.empty()) best.assign(machines_.size() + 1, INFINITY);
        best[k] = std::min(best[k], period_s(cutting->loads, machines, training));
        break;
      }
    }
  }

  void partition(unsigned placed) {
    const unsigned everyone = (1U << machines_.size()) - 1;
    if (placed == everyone) {
      if (clusters_.empty()) return;
      double slowest = 0;
      for (const unsigned mask : clusters_) {
        const std::vector<double>& own = periods(mask);
        if (own.empty()) return;
        slowest = std::max(slowest, own[clusters_.size()]);
      }
      best_ = std::max(best_, batch_ * static_cast<double>(clusters_.size()) / slowest);
      return;
    }
    unsigned first = 1;
    while ((placed & first) != 0) first <<= 1;
    const unsigned left = everyone & ~placed;
    if (balance_ == Balance::kTime) partition(placed | first);  // without it
    for (unsigned part = left; part != 0; part = (part - 1) & left) {
      if ((part & first) == 0 || std::popcount(part) < 2 || periods(part).empty()) continue;
      clusters_.push_back(part);
      partition(placed | part);
      clusters_.pop_back();
    }
  }

  Segments segments_;
  std::vector<Machine> machines_;
  Balance balance_;
  double batch_;
  std::map<std::vector<int>, std::vector<double>> known_;
  std::vector<const std::vector<double>*> by_mask_;
  std::vector<unsigned> clusters_;
  double best_ = 0;
};

ModelCosts random_model(std::mt19937& random) {
  std::vector<Layer> layers;
  const int count = 10 + static_cast<int>(random() % 8);
  for (int i = 0; i < count; ++i) {
    layers.push_back({static_cast<std::int64_t>(1 + random() % 2'000'000),
                      1e6 * static_cast<double>(1 + random() % 1000), static_cast<std::int64_t>(random() % 400'000)});
  }
  return chain(layers);
}

Pool random_pool(std::mt19937& random, const ModelCosts& costs, int nodes, bool with_compute) {
  Pool pool;
  // From pools that hold the model several times to pools that cannot hold it once.
  const double plenty = std::exp(std::uniform_real_distribution<double>(-1.0, 2.0)(random));
  // All orders of many machines that are all different would keep the judge busy for hours.
  const bool few_kinds = nodes > 6 || random() % 2 == 0;
  std::vector<PoolNode> kinds;
  for (int i = 0; i < (few_kinds ? 3 : nodes); ++i) {
    PoolNode kind = machine(static_cast<double>(costs.memory_bytes) / 1e9 * plenty *
                                std::uniform_real_distribution<double>(0.3, 2.0)(random) * 2 / nodes,
                            std::exp(std::uniform_real_distribution<double>(2, 8)(random)), 8080);
    if (with_compute) kind.compute_gflops = std::exp(std::uniform_real_distribution<double>(1, 4)(random));
    kinds.push_back(kind);
  }
  for (int i = 0; i < nodes; ++i) {
    PoolNode node = kinds[few_kinds ? random() % kinds.size() : i];
    node.address.port = static_cast<std::uint16_t>(8080 + i);
    pool.nodes.push_back(node);
  }
  return pool;
}

void check_formation(const ModelCosts& costs, const Pool& pool, const Formation& formed) {
  std::vector<int> seen;
  const std::vector<Machine> machines = machines_of(pool);
  for (const FormedCluster& cluster : formed.clusters) {
    EXPECT_GE(cluster.nodes.size(), 2U);
    EXPECT_EQ(cluster.cutting.cuts.size() + 1, cluster.nodes.size());
    std::vector<Machine> own;
    for (const int node : cluster.nodes) own.push_back(machines[node]);
    const std::vector<StageLoad> loads = stage_loads(costs, cluster.cutting.cuts);
    EXPECT_LE(fullest(loads, own, {}), 1);
    for (const StageLoad& load : loads) EXPECT_GT(load.owned_parameters, 0);
    seen.insert(seen.end(), cluster.nodes.begin(), cluster.nodes.end());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size() + formed.spares.size(), pool.nodes.size());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

// Under a sanitizer a tenth must do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPools = 30;
#else
constexpr int kPools = 300;
#endif

TEST(Form, RandomPoolsReach98PercentOfTheBruteForceOptimum) {
  std::mt19937 random(11);
  int formed_count = 0;
  int refused = 0;
  int spares = 0;
  for (int round = 0; round < kPools; ++round) {
    const bool by_time = round % 2 == 0;
    const int nodes = 2 + static_cast<int>(random() % 9);
    const ModelCosts costs = random_model(random);
    const Pool pool = random_pool(random, costs, nodes, by_time);
    BruteForce judge(costs, machines_of(pool), by_time ? Balance::kTime : Balance::kParams);
    const double best = judge.best();
    FormOptions options;
    options.seed = static_cast<std::uint64_t>(round);
    const Result<Formation> formed = form_clusters(costs, pool, options);
    ASSERT_EQ(formed.ok(), best > 0) << "round " << round << ", " << nodes << " nodes: " << formed.status();
    if (!formed.ok()) {
      ++refused;
      EXPECT_THAT(formed.status().message(), testing::ContainsRegex("[0-9.]+ MB.*[0-9.]+ MB.*would help"));
      continue;
    }
    ++formed_count;
    spares += static_cast<int>(formed->spares.size());
    EXPECT_TRUE(by_time || formed->spares.empty());
    check_formation(costs, pool, *formed);
    const Plan plan = complete_plan(costs, pool, *formed, options);
    EXPECT_GE(plan.samples_per_s, 0.98 * best) << "round " << round << ", " << nodes << " nodes";
  }
  EXPECT_GT(formed_count, kPools / 3);
  EXPECT_GT(refused, kPools / 20);
  EXPECT_GT(spares, kPools / 10);
}

Pool with_compute(Pool pool, const std::vector<double>& gflops) {
  for (std::size_t i = 0; i < gflops.size(); ++i) pool.nodes[i].compute_gflops = gflops[i];
  return pool;
}

ModelCosts tower() { return chain(std::vector<Layer>(12, {100'000, 1e9, 1000})); }

TEST(Form, ByTimeANodeThatHoldsBackTheOthersIsASpareAndNamed) {
  const Pool pool = with_compute(equal_pool(4, 8, 1000), {100, 100, 100, 1});
  const Formation formed = form_clusters(tower(), pool, {}).value();
  EXPECT_THAT(formed.spares, ElementsAre(3));
  EXPECT_THAT(formed.unused, ElementsAre(3));
  ASSERT_EQ(formed.notes.size(), 1U);
  EXPECT_THAT(formed.notes[0],
              testing::MatchesRegex("node_3 .* is a spare: without it the pool trains .* times as fast; "
                                    "use_all keeps it"));
  FormOptions all;
  all.use_all = true;
  const Formation whole = form_clusters(tower(), pool, all).value();
  EXPECT_TRUE(whole.spares.empty());
  EXPECT_THAT(whole.notes[0], testing::HasSubstr("without node_3"));
  FormOptions by_ram;
  by_ram.balance = Balance::kParams;
  EXPECT_TRUE(form_clusters(tower(), pool, by_ram).value().spares.empty());
  EXPECT_TRUE(
      form_clusters(tower(), with_compute(equal_pool(4, 8, 1000), {100, 90, 95, 100}), {}).value().spares.empty());
}

TEST(Form, SparesAreFoundInPoolsTooLargeToLookAtAll) {
  std::vector<double> gflops(24, 100);
  gflops[3] = gflops[11] = gflops[17] = 0.5;
  const Pool pool = with_compute(equal_pool(24, 8, 1000), gflops);
  const Formation formed = form_clusters(tower(), pool, {}).value();
  EXPECT_THAT(formed.spares, ElementsAre(3, 11, 17));
}

TEST(Form, WhatTheProcessTakesCountsAndIsSaid) {
  Pool pool = equal_pool(3, 0.35, 10);
  EXPECT_TRUE(form_clusters(tower(), pool, {}).ok());
  for (PoolNode& node : pool.nodes) node.process_gb.reset();  // what is assumed
  const Status refused = form_clusters(chain(std::vector<Layer>(12, {2'000'000, 1e9, 1000})), pool, {}).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), testing::ContainsRegex("1.05 GB of RAM, .* of which 870 MB the process takes"));
  pool.nodes[1].ram_gb = 0.1;
  pool.nodes[0].ram_gb = 8;
  EXPECT_THAT(form_clusters(tower(), pool, {}).status().message(),
              testing::HasSubstr("node_1 (0.0.0.0:8081) has 100 MB of RAM, but the smallest stage"));
}

}  // namespace
}  // namespace ravnest::plan
