#include "ravnest/plan/simulate/simulate.h"

#include <gmock/gmock.h>

#include "ravnest/plan/plan.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

ModelCosts tower(int layers = 12) {
  std::vector<Layer> made;
  for (int i = 0; i < layers; ++i) made.push_back({2'000'000, 4e9, 400'000});
  return chain(made);
}

Scenario scenario(std::string_view json) {
  Result<Scenario> decoded = decode_scenario(json, "scenario", ".");
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  // Models of numbers are smaller than any process.
  for (PoolNode& node : decoded->pool.nodes) node.process_gb = 0;
  for (Event& event : decoded->events) {
    if (auto* join = std::get_if<Join>(&event.change)) {
      for (PoolNode& node : join->nodes) node.process_gb = 0;
    }
  }
  return std::move(decoded).value();
}

// Eight equal nodes, then these events.
Scenario after_eight(std::string_view events) {
  return scenario(
      text(R"({"nodes": [{"count": 8, "ram": 1, "bandwidth": 1000, "compute": 100}], "events": )", events, "}"));
}

std::vector<SimulatedStep> simulated(const ModelCosts& costs, const Scenario& given) {
  Result<std::vector<SimulatedStep>> steps = simulate(costs, given);
  EXPECT_TRUE(steps.ok()) << steps.status();
  return std::move(steps).value();
}

// The plan of the start, made the way `ravnest plan` makes it.
Plan start_plan(const ModelCosts& costs, const Scenario& given) {
  const Result<Formation> formed = form_clusters(costs, given.pool, given.form);
  EXPECT_TRUE(formed.ok()) << formed.status();
  return complete_plan(costs, given.pool, *formed, given.form);
}

// What predict_cluster says of the plan's clusters on the machines of `pool`, those of `still` left out.
double predicted(const ModelCosts& costs, const Plan& plan, const Pool& pool, const std::vector<int>& still = {}) {
  const std::vector<Machine> machines = machines_of(pool);
  TrainingAssumptions training = plan.training;
  training.clusters = static_cast<int>(plan.clusters.size() - still.size());
  std::vector<ClusterPrediction> predictions;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    if (std::find(still.begin(), still.end(), static_cast<int>(c)) != still.end()) continue;
    std::vector<Machine> own;
    for (const PlannedStage& stage : plan.clusters[c].stages) own.push_back(machines[stage.node]);
    predictions.push_back(predict_cluster(stage_loads(costs, plan.cuts(static_cast<int>(c))), own, costs.batch,
                                          training, plan.clusters[c].window));
  }
  return pool_samples_per_s(predictions);
}

TEST(Simulate, TheStartIsThePlanThatPlanWouldMake) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight("[]");
  const std::vector<SimulatedStep> steps = simulated(costs, given);
  const Plan plan = start_plan(costs, given);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].event, "start");
  EXPECT_EQ(steps[0].nodes, 8);
  EXPECT_EQ(steps[0].kept.samples_per_s, plan.samples_per_s);
  EXPECT_EQ(steps[0].kept.clusters, static_cast<int>(plan.clusters.size()));
  EXPECT_EQ(steps[0].anew, steps[0].kept);
}

TEST(Simulate, ASlowLinkLowersTheKeptPlanAsThePredictorSays) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight(R"([{"link": {"nodes": [2], "bandwidth": 5, "latency": 80}}])");
  const std::vector<SimulatedStep> steps = simulated(costs, given);
  Pool changed = given.pool;
  changed.nodes[2].bandwidth_mbps = 5;
  changed.nodes[2].latency_ms = 80;
  EXPECT_LT(steps[1].kept.samples_per_s, 0.9 * steps[0].kept.samples_per_s);
  EXPECT_EQ(steps[1].kept.samples_per_s, predicted(costs, start_plan(costs, given), changed));
}

TEST(Simulate, LatencyAloneLeavesTheBandwidth) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight(R"([{"link": {"nodes": [2], "latency": 300}}])");
  Pool changed = given.pool;
  changed.nodes[2].latency_ms = 300;
  const std::vector<SimulatedStep> steps = simulated(costs, given);
  EXPECT_EQ(steps[1].kept.samples_per_s, predicted(costs, start_plan(costs, given), changed));
  EXPECT_EQ(steps[1].kept.limit, Limit::kRoundTrip);
}

TEST(Simulate, ASlowNodeHoldsBackTheKeptPlanAndIsNamed) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight(R"([{"slow": {"nodes": [5], "factor": 0.25}}])");
  Pool changed = given.pool;
  changed.nodes[5].compute_gflops = 25;
  const std::vector<SimulatedStep> steps = simulated(costs, given);
  EXPECT_EQ(steps[1].kept.samples_per_s, predicted(costs, start_plan(costs, given), changed));
  EXPECT_EQ(steps[1].kept.slowest_node, 5);
  EXPECT_EQ(steps[1].kept.limit, Limit::kCompute);
  EXPECT_GT(steps[1].anew->samples_per_s, 1.1 * steps[1].kept.samples_per_s);
}

TEST(Simulate, WhereNoComputeIsKnownASlowNodeSlowsNoOther) {
  const ModelCosts costs = tower();
  const Scenario given = scenario(R"({"nodes": [{"count": 8, "ram": 1, "bandwidth": 1000}],
                                      "events": [{"slow": {"nodes": [5], "factor": 0.25}}]})");
  Pool changed = given.pool;
  for (PoolNode& node : changed.nodes) node.compute_gflops = kAssumedGflops;
  changed.nodes[5].compute_gflops = kAssumedGflops / 4;
  EXPECT_EQ(simulated(costs, given)[1].kept.samples_per_s, predicted(costs, start_plan(costs, given), changed));
}

TEST(Simulate, EqualNodesThatJoinRaiseTheNewPlanAndLeaveTheKeptOne) {
  const std::vector<SimulatedStep> steps =
      simulated(tower(), after_eight(R"([{"join": {"count": 8, "ram": 1, "bandwidth": 1000, "compute": 100}}])"));
  EXPECT_EQ(steps[1].nodes, 16);
  EXPECT_EQ(steps[1].kept, steps[0].kept);
  EXPECT_GT(steps[1].anew->samples_per_s, 1.8 * steps[0].kept.samples_per_s);
  EXPECT_EQ(steps[1].anew->nodes, 16);
}

TEST(Simulate, ANodeThatLeavesStopsItsClusterAndTheOthersGoOn) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight(R"([{"leave": [3]}, {"leave": [0, 1, 2, 4, 5, 6]}])");
  const Plan plan = start_plan(costs, given);
  ASSERT_GT(plan.clusters.size(), 1U);
  const auto [cluster, stage] = plan.place_of(3);
  const std::vector<SimulatedStep> steps = simulated(costs, given);
  EXPECT_EQ(steps[1].nodes, 7);
  EXPECT_EQ(steps[1].kept.still_clusters, 1);
  EXPECT_EQ(steps[1].kept.first_lost, 3);
  EXPECT_EQ(steps[1].kept.clusters, static_cast<int>(plan.clusters.size()) - 1);
  EXPECT_EQ(steps[1].kept.nodes, 8 - static_cast<int>(plan.clusters[cluster].stages.size()));
  EXPECT_EQ(steps[1].kept.samples_per_s, predicted(costs, plan, given.pool, {cluster}));
  EXPECT_EQ(steps[2].kept.samples_per_s, 0);
  EXPECT_EQ(steps[2].kept.clusters, 0);
  EXPECT_EQ(steps[2].nodes, 1);
}

TEST(Simulate, TheNewPlanNamesNodesByTheirIdsAlsoAfterSomeLeft) {
  const Scenario given = scenario(R"({"nodes": [{"count": 4, "ram": 1, "bandwidth": 1000, "compute": 100},
                                                {"count": 2, "ram": 1, "bandwidth": 0.5, "compute": 100}],
                                      "min_cluster_size": 4, "events": [{"leave": [0, 4]}]})");
  const std::vector<SimulatedStep> steps = simulated(tower(), given);
  EXPECT_EQ(steps[1].anew->nodes, 4);
  EXPECT_EQ(steps[1].anew->slowest_node, 5);
}

TEST(Simulate, AveragingMoreOftenCostsMore) {
  const ModelCosts costs = tower();
  const std::vector<SimulatedStep> steps = simulated(costs, after_eight(R"([{"reduce_factor": 1}])"));
  Plan plan = start_plan(costs, after_eight("[]"));
  plan.training.updates_per_round = 1;
  EXPECT_LT(steps[1].kept.samples_per_s, steps[0].kept.samples_per_s);
  EXPECT_EQ(steps[1].kept.samples_per_s, predicted(costs, plan, after_eight("[]").pool));
}

TEST(Simulate, WhereTooLittleIsLeftTheReasonIsTold) {
  const Scenario given = scenario(R"({"nodes": [{"count": 2, "ram": 0.3, "bandwidth": 1000, "compute": 100}],
                                      "min_cluster_size": 1, "events": [{"leave": [1]}]})");
  const std::vector<SimulatedStep> steps = simulated(tower(), given);
  EXPECT_FALSE(steps[1].anew.has_value());
  EXPECT_THAT(steps[1].no_plan, testing::StartsWith("the pool's 1 node has 300 MB of RAM in all, but training"));
  EXPECT_EQ(steps[1].kept.samples_per_s, 0);
}

TEST(Simulate, APoolThatCannotTrainAtTheStartIsAnError) {
  const Result<std::vector<SimulatedStep>> steps =
      simulate(tower(), scenario(R"({"nodes": [{"count": 2, "ram": 0.01, "bandwidth": 10}]})"));
  EXPECT_EQ(steps.status().code(), Code::kInvalid);
  EXPECT_THAT(steps.status().message(),
              testing::StartsWith("there is no plan for the pool of the start: the pool's 2"));
}

constexpr std::string_view kThreeHundred = R"({
  "nodes": [{"count": 200, "ram": 16, "bandwidth": 200, "compute": 300, "latency": 10},
            {"count": 100, "ram": 4, "bandwidth": 50, "compute": 60, "latency": 40}],
  "events": [{"join": {"count": 20, "ram": 2, "bandwidth": 10, "compute": 10}}, {"leave": [0, 17, 250]},
             {"link": {"nodes": [1, 2, 3], "bandwidth": 5, "latency": 80}}, {"slow": {"nodes": [40], "factor": 0.1}},
             {"reduce_factor": 10}],
  "seed": 11})";

TEST(Simulate, ThreeHundredNodesAndFiveEventsAreSimulated) {
  const std::vector<SimulatedStep> steps = simulated(tower(8), scenario(kThreeHundred));
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(steps[1].nodes, 320);
  EXPECT_EQ(steps[5].nodes, 317);
  for (const SimulatedStep& step : steps) EXPECT_GT(step.anew.value().samples_per_s, 0) << step.event;
  EXPECT_GE(steps[2].kept.still_clusters, 1);
}

TEST(Simulate, TheSameSeedGivesTheSameFigures) {
  const std::string_view small =
      R"({"nodes": [{"count": 14, "ram": 1, "bandwidth": 100, "compute": 90, "spread": 0.4}], "balance": "params",
                                     "events": [{"leave": [2]}, {"slow": {"nodes": [0], "factor": 0.5}}], "seed": 5})";
  EXPECT_EQ(simulated(tower(), scenario(small)), simulated(tower(), scenario(small)));
  const std::string seeded = std::string(small.substr(0, small.rfind('5'))) + "6}";
  EXPECT_NE(simulated(tower(), scenario(small)), simulated(tower(), scenario(seeded)));
}

TEST(Simulate, ProgressGoesOnlyForwardAndFalseEndsIt) {
  const ModelCosts costs = tower();
  const Scenario given = after_eight(R"([{"leave": [3]}, {"slow": {"nodes": [5], "factor": 0.25}}])");
  double last = 0;
  const auto watched = simulate(costs, given, [&](double share) {
    EXPECT_GE(share, last);
    EXPECT_LE(share, 1);
    last = share;
    return true;
  });
  EXPECT_TRUE(watched.ok());
  EXPECT_GT(last, 0.6);
  int calls_after = 0;
  const auto ended = simulate(costs, given, [&](double share) {
    if (share >= 0.5) ++calls_after;
    return share < 0.5;
  });
  EXPECT_EQ(ended.status().code(), Code::kCancelled);
  EXPECT_EQ(calls_after, 1);
}

}  // namespace
}  // namespace ravnest::plan
