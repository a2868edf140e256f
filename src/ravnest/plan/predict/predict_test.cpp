#include "ravnest/plan/predict/predict.h"

#include <gtest/gtest.h>

#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

StageLoad load(double work, std::int64_t received, std::int64_t sent) {
  StageLoad made;
  made.work = work;
  made.received_bytes = made.returned_bytes = received;
  made.sent_bytes = made.gradient_bytes = sent;
  made.owned_bytes = 1000;
  return made;
}

const Machine kMachine{.ram_bytes = 1e9, .link_bytes_per_s = 1e6, .latency_s = 0, .flops_per_s = 1e9};

TEST(Predict, TheSlowestStagesComputeIsTheTimeBetweenBatches) {
  const std::vector<StageLoad> loads = {load(1e9, 0, 1000), load(3e9, 1000, 0)};
  const ClusterPrediction made = predict_cluster(loads, std::vector<Machine>(2, kMachine), 6, {});
  EXPECT_DOUBLE_EQ(made.period_s, 3);
  EXPECT_DOUBLE_EQ(made.samples_per_s, 2);
  EXPECT_EQ(made.slowest_stage, 1);
  EXPECT_EQ(made.limit, Limit::kCompute);
}

TEST(Predict, ATransferIsAsFastAsTheSlowerOfItsEnds) {
  std::vector<Machine> machines(2, kMachine);
  machines[1].link_bytes_per_s = 1e3;
  const std::vector<StageLoad> loads = {load(1e6, 0, 5000), load(1e6, 5000, 0)};
  const ClusterPrediction made = predict_cluster(loads, machines, 1, {});
  EXPECT_NEAR(made.period_s, 5, 0.01);
  EXPECT_EQ(made.slowest_stage, 1);
  std::swap(machines[0], machines[1]);
  EXPECT_NEAR(predict_cluster(loads, machines, 1, {}).period_s, 5, 0.01);
}

TEST(Predict, ALinkCarriesItsBytesOnceABatch) {
  const std::vector<StageLoad> loads = {load(2e9, 0, 5000), load(1e9, 5000, 0)};
  const ClusterPrediction made = predict_cluster(loads, std::vector<Machine>(2, kMachine), 1, {});
  EXPECT_DOUBLE_EQ(made.stages[0].out_bytes_per_s, 2500);
  EXPECT_DOUBLE_EQ(made.stages[1].in_bytes_per_s, 2500);
}

TEST(Predict, LatencyIsHiddenUpToThePassesInFlight) {
  std::vector<Machine> machines(2, kMachine);
  for (Machine& machine : machines) machine.latency_s = 0.5;
  const std::vector<StageLoad> loads = {load(1e9, 0, 0), load(1e9, 0, 0)};
  EXPECT_DOUBLE_EQ(predict_cluster(loads, machines, 1, {}).period_s, 1.5);  // (1 + 1 + 2 * 0.5) / 2
  EXPECT_EQ(predict_cluster(loads, machines, 1, {}).limit, Limit::kRoundTrip);
}

TEST(Predict, AWiderWindowHidesMoreLatency) {
  std::vector<Machine> machines(2, kMachine);
  for (Machine& machine : machines) machine.latency_s = 2;
  const std::vector<StageLoad> loads = {load(1e9, 0, 0), load(1e9, 0, 0)};
  EXPECT_EQ(window_for(loads, machines, {}), 7);  // 1 + 1 + 2 * 2 seconds of way, and one to spare
  const ClusterPrediction made = predict_cluster(loads, machines, 1, {}, 7);
  EXPECT_DOUBLE_EQ(made.period_s, 1);
  EXPECT_EQ(made.window, 7);
  EXPECT_EQ(made.stages[0].staleness, 6);
  EXPECT_EQ(made.stages[1].versions, 1);
}

TEST(Predict, TheWindowIsTheNumberOfStagesWhereThatIsEnough) {
  const std::vector<StageLoad> loads = {load(1e9, 0, 0), load(1e9, 0, 0), load(1e9, 0, 0)};
  EXPECT_EQ(window_for(loads, std::vector<Machine>(3, kMachine), {}), 3);
}

TEST(Predict, TheWindowEndsWhereTheMemoryDoes) {
  std::vector<Machine> machines(2, kMachine);
  for (Machine& machine : machines) machine.latency_s = 2;
  std::vector<StageLoad> loads = {load(1e9, 0, 0), load(1e9, 0, 0)};
  loads[0].saved_bytes = 150'000'000;  // of a pass in flight: five fill three quarters of the RAM
  EXPECT_EQ(window_for(loads, machines, {}), 5);
  machines[0].process_bytes = 150'000'000;
  EXPECT_EQ(window_for(loads, machines, {}), 4);
  machines[0].process_bytes = 0;
  for (Machine& machine : machines) machine.latency_s = 200;
  loads[0].saved_bytes = 0;
  EXPECT_EQ(window_for(loads, machines, {}), 2 * kMostPassesPerStage);
}

TEST(Predict, CompressionShortensTransfers) {
  TrainingAssumptions options;
  options.sent_share = 0.25;
  const std::vector<StageLoad> loads = {load(1e6, 0, 4'000'000), load(1e6, 4'000'000, 0)};
  const ClusterPrediction made = predict_cluster(loads, std::vector<Machine>(2, kMachine), 1, options);
  EXPECT_EQ(made.stages[0].bytes_out, 1'000'000);
  EXPECT_DOUBLE_EQ(made.stages[0].send_s, 1);
}

TEST(Predict, AveragingSharesTheLinks) {
  TrainingAssumptions options;
  options.clusters = 4;
  options.updates_per_round = 1;
  const std::vector<StageLoad> loads = {load(1, 0, 0)};
  const ClusterPrediction made = predict_cluster(loads, std::vector<Machine>{kMachine}, 1, options);
  EXPECT_DOUBLE_EQ(made.stages[0].averaging_bytes, 1500);  // 2 * 3/4 of 1000
  EXPECT_DOUBLE_EQ(made.period_s, 1.5e-3);
}

TEST(Predict, AveragingIsCompressedLikeAllElse) {
  TrainingAssumptions options;
  options.clusters = 4;
  options.updates_per_round = 3;
  options.sent_share = 0.5;
  EXPECT_DOUBLE_EQ(averaging_bytes(load(1, 0, 0), options), 250);  // half of 2 * 3/4 of 1000, in three batches
}

TEST(Predict, AnOnlyClusterDoesNotAverage) { EXPECT_EQ(averaging_bytes(load(1, 0, 0), {}), 0); }

TEST(Predict, WhatIsTrainedAndStatisticsAreAveragedAsFloat32) {
  EXPECT_EQ(averaged_bytes({"half", 2 * 10, 10, true, true, {0}}), 40);
  EXPECT_EQ(averaged_bytes({"frozen", 4 * 10, 10, true, false, {0}}), 0);
  EXPECT_EQ(averaged_bytes({"mask", 4 * 10, 10, false, false, {0}}), 0);
  EXPECT_EQ(averaged_bytes({"mean", 4 * 10, 10, false, false, {0}, true}), 40);
}

TEST(Predict, AStageAveragesItsStatisticsToo) {
  ModelCosts costs = chain({{100, 1, 4}, {50, 1, 4}});
  costs.stored.push_back({"mean", 40, 10, false, false, {1}, true});
  const std::vector<StageLoad> loads = stage_loads(costs, {1});
  EXPECT_EQ(loads[0].owned_bytes, 400);
  EXPECT_EQ(loads[1].owned_bytes, 240);
  const Segments segments(costs, {0, 1, 2});
  EXPECT_EQ(segments.load(1, 2).owned_bytes, 240);
  EXPECT_EQ(segments.load(0, 2).owned_bytes, 640);
}

TEST(Predict, EarlyStagesHoldMoreVersionsAndAreMoreStale) {
  const std::vector<StageLoad> loads(3, load(1, 0, 0));
  const ClusterPrediction made = predict_cluster(loads, std::vector<Machine>(3, kMachine), 1, {});
  EXPECT_EQ(made.stages[0].versions, 3);
  EXPECT_EQ(made.stages[0].staleness, 2);
  EXPECT_EQ(made.stages[2].versions, 1);
  EXPECT_EQ(made.stages[2].staleness, 0);
}

TEST(Predict, ThePoolGoesAtThePaceOfItsSlowestCluster) {
  std::vector<ClusterPrediction> clusters(3);
  clusters[0].samples_per_s = 10;
  clusters[1].samples_per_s = 4;
  clusters[2].samples_per_s = 8;
  EXPECT_DOUBLE_EQ(pool_samples_per_s(clusters), 12);
}

TEST(Predict, MemoryIsWeightsGradientsOptimizerVersionsAndPassesInFlight) {
  StageLoad stage;
  stage.stored_bytes = 100;
  stage.trainable_bytes = 80;
  stage.saved_bytes = 10;
  stage.working_bytes = 7;
  Machine machine = kMachine;
  machine.process_bytes = 1000;
  const StageMemory memory = stage_memory(stage, machine, {.stage = 1, .stages = 3, .window = 4}, {});
  EXPECT_EQ(memory, (StageMemory{100, 80, 160, 160, 37, 1000}));
  EXPECT_EQ(memory.total(), 1537);
  const StageMemory leaf = stage_memory(stage, machine, {.stage = 2, .stages = 3, .window = 4}, {});
  EXPECT_EQ(leaf, (StageMemory{100, 80, 160, 0, 17, 1000})) << "a leaf never holds a second pass";
}

}  // namespace
}  // namespace ravnest::plan
