#include "ravnest/plan/search/cut.h"

#include <gmock/gmock.h>

#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using testing::ElementsAre;

Segments all_places(const ModelCosts& costs) { return {costs, cut_positions(costs, 1024)}; }

std::vector<Machine> machines(const std::vector<double>& ram_bytes, const std::vector<double>& flops) {
  std::vector<Machine> made;
  for (std::size_t i = 0; i < ram_bytes.size(); ++i)
    made.push_back({.ram_bytes = ram_bytes[i], .link_bytes_per_s = 1e9, .latency_s = 0, .flops_per_s = flops[i]});
  return made;
}

TEST(Cut, SharesOfTheDigitsModelFallBeforeDense1AndBn3) {
  const ModelCosts costs = digits();
  const auto cutting = cut(all_places(costs), machines({8e9, 8e9, 8e9}, {1, 1, 1}), Balance::kParams, {});
  ASSERT_TRUE(cutting);
  ASSERT_EQ(cutting->cuts.size(), 2U);
  EXPECT_EQ(costs.operators[cutting->cuts[0]].name, "dense_1");
  EXPECT_EQ(costs.operators[cutting->cuts[1]].name, "bn_3");
  EXPECT_EQ(cutting->loads[0].owned_parameters, 4896);
  EXPECT_EQ(cutting->loads[1].owned_parameters, 8448);
  EXPECT_EQ(cutting->loads[2].owned_parameters, 3082);
}

TEST(Cut, SharesFollowTheRam) {
  const ModelCosts costs = chain(std::vector<Layer>(8, {100, 1, 4}));
  const auto cutting = cut(all_places(costs), machines({5e9, 2e9, 1e9}, {1, 1, 1}), Balance::kParams, {});
  ASSERT_TRUE(cutting);
  EXPECT_THAT(cutting->cuts, ElementsAre(5, 7));
}

TEST(Cut, OperatorsWithoutParametersStayWithThoseBefore) {
  const ModelCosts costs = chain({{100, 1, 4}, {0, 1, 4}, {0, 1, 4}, {100, 1, 4}});
  const auto cutting = cut(all_places(costs), machines({1e9, 1e9}, {1, 1}), Balance::kParams, {});
  ASSERT_TRUE(cutting);
  EXPECT_THAT(cutting->cuts, ElementsAre(3));
}

TEST(Cut, TheLastStageNeverStaysEmpty) {
  const ModelCosts costs = chain({{1000, 1, 4}, {1, 1, 4}, {1, 1, 4}, {1, 1, 4}, {1, 1, 4}, {1, 1, 4}});
  for (int stages = 2; stages <= 6; ++stages) {
    const auto cutting =
        cut(all_places(costs), machines(std::vector<double>(stages, 1e9), std::vector<double>(stages, 1)),
            Balance::kParams, {});
    ASSERT_TRUE(cutting) << stages;
    for (const StageLoad& load : cutting->loads) EXPECT_GT(load.owned_parameters, 0) << stages;
  }
}

TEST(Cut, ThereAreNoMoreStagesThanOperatorsWithParameters) {
  const ModelCosts costs = chain({{10, 1, 4}, {0, 1, 4}, {10, 1, 4}, {0, 1, 4}});
  EXPECT_EQ(all_places(costs).most_stages(), 2);
  for (const Balance balance : {Balance::kParams, Balance::kTime, Balance::kMemory})
    EXPECT_FALSE(cut(all_places(costs), machines({1e9, 1e9, 1e9}, {1, 1, 1}), balance, {}));
}

// All cuttings, one after the other.
void for_each_cutting(int operators, int stages, std::vector<int>& cuts, const std::function<void()>& visit) {
  if (static_cast<int>(cuts.size()) == stages - 1) return visit();
  for (int p = cuts.empty() ? 1 : cuts.back() + 1; p < operators; ++p) {
    cuts.push_back(p);
    for_each_cutting(operators, stages, cuts, visit);
    cuts.pop_back();
  }
}

ModelCosts random_chain(std::mt19937& random, int operators) {
  std::vector<Layer> layers;
  for (int i = 0; i < operators; ++i) {
    layers.push_back({static_cast<std::int64_t>(random() % 3 == 0 ? 0 : random() % 1000),
                      static_cast<double>(random() % 1000), static_cast<std::int64_t>(random() % 2000)});
  }
  ModelCosts costs = chain(layers);
  for (int skips = 0; skips < 3; ++skips) {
    const int from = static_cast<int>(random() % (operators - 1));
    const int to = from + 1 + static_cast<int>(random() % (operators - from));
    costs.sent.push_back(
        {from, {to}, static_cast<std::int64_t>(random() % 2000), static_cast<std::int64_t>(random() % 2000)});
  }
  for (int p = 1; p < operators; ++p) costs.operators[p].cut_allowed = random() % 4 != 0;
  return costs;
}

TEST(Cut, TimeAndMemoryAreAsGoodAsTheBestOfAllCuttings) {
  std::mt19937 random(7);
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    const int operators = 4 + static_cast<int>(random() % 8);
    const ModelCosts costs = random_chain(random, operators);
    const int stages = 1 + static_cast<int>(random() % 4);
    std::vector<double> ram;
    std::vector<double> flops;
    for (int s = 0; s < stages; ++s) {
      ram.push_back(5e3 + static_cast<double>(random() % 60'000));
      flops.push_back(1 + static_cast<double>(random() % 9));
    }
    std::vector<Machine> nodes = machines(ram, flops);
    for (Machine& node : nodes) node.link_bytes_per_s = 1 + static_cast<double>(random() % 20);
    double least_time = INFINITY;
    double least_memory = INFINITY;
    std::vector<int> cuts;
    for_each_cutting(operators, stages, cuts, [&] {
      for (const int p : cuts) {
        if (!costs.operators[p].cut_allowed) return;
      }
      const std::vector<StageLoad> loads = stage_loads(costs, cuts);
      for (int s = 0; s < stages; ++s) {
        if (loads[s].owned_parameters == 0) return;
      }
      const double memory = fullest(loads, nodes, {});
      least_memory = std::min(least_memory, memory);
      if (memory <= 1) least_time = std::min(least_time, period_s(loads, nodes, {}));
    });
    const auto by_memory = cut(all_places(costs), nodes, Balance::kMemory, {});
    ASSERT_EQ(by_memory.has_value(), least_memory < INFINITY) << round;
    if (!by_memory) continue;
    EXPECT_DOUBLE_EQ(by_memory->fullest, least_memory) << round;
    const auto by_time = cut(all_places(costs), nodes, Balance::kTime, {});
    ASSERT_TRUE(by_time);
    EXPECT_EQ(by_time->fits(), least_memory <= 1) << round;
    if (!by_time->fits()) continue;
    ++fitting;
    EXPECT_LE(period_s(by_time->loads, nodes, {}), least_time * 1.001) << round;
  }
  EXPECT_GT(fitting, 50);
}

TEST(Cut, TimeGivesUnequalMachinesUnequalStages) {
  const ModelCosts costs = chain(std::vector<Layer>(14, {100, 1e9, 4}));
  const auto cutting = cut(all_places(costs), machines({1e9, 1e9, 1e9}, {4e9, 2e9, 1e9}), Balance::kTime, {});
  ASSERT_TRUE(cutting);
  EXPECT_THAT(cutting->cuts, ElementsAre(8, 12));
}

TEST(Segments, LoadsAreThoseOfTheStagesWhereEachResultHasOneReader) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    ModelCosts costs = random_chain(random, 10);
    for (OperatorCost& each : costs.operators) each.cut_allowed = true;
    costs.stored.front().used_at.push_back(9);  // a tied weight
    const Segments segments = all_places(costs);
    for (int a = 1; a < 9; ++a) {
      for (int b = a + 1; b < 10; ++b) {
        const std::vector<StageLoad> loads = stage_loads(costs, {a, b});
        const std::vector<std::pair<int, int>> bounds = {{0, a}, {a, b}, {b, 10}};
        for (int s = 0; s < 3; ++s) {
          const StageLoad load = segments.load(bounds[s].first, bounds[s].second);
          EXPECT_EQ(load.stored_bytes, loads[s].stored_bytes);
          EXPECT_EQ(load.trainable_bytes, loads[s].trainable_bytes);
          EXPECT_EQ(load.owned_bytes, loads[s].owned_bytes);
          EXPECT_EQ(load.saved_bytes, loads[s].saved_bytes);
          EXPECT_EQ(load.received_bytes, loads[s].received_bytes);
          EXPECT_EQ(load.returned_bytes, loads[s].returned_bytes);
          EXPECT_EQ(load.sent_bytes, loads[s].sent_bytes);
          EXPECT_EQ(load.gradient_bytes, loads[s].gradient_bytes);
          EXPECT_EQ(load.kept_bytes, loads[s].kept_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ravnest::plan
