#include "ravnest/plan/averaging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/plan/show/explain.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Four layers of 250 000 parameters, 1 MB each, in clusters cut at these places: 0.1 s per layer, and links of 1 MB/s,
// over which nothing but averaging goes.
Plan planned(const std::vector<std::vector<int>>& cuts, int updates_per_round, double sent_share = 1) {
  const ModelCosts costs = chain(std::vector<Layer>(4, {250'000, 1e9, 0}));
  Formation formation;
  int nodes = 0;
  for (const std::vector<int>& own : cuts) {
    FormedCluster& cluster = formation.clusters.emplace_back();
    cluster.cutting.cuts = own;
    for (std::size_t s = 0; s <= own.size(); ++s) cluster.nodes.push_back(nodes++);
  }
  Pool pool = equal_pool(nodes, 8, 8);
  for (PoolNode& node : pool.nodes) node.compute_gflops = 10;
  FormOptions options;
  options.training.updates_per_round = updates_per_round;
  options.training.sent_share = sent_share;
  return complete_plan(costs, pool, formation, options);
}

TEST(Averaging, ARoundMovesTwiceAllButTheOwnShareOfWhatANodeOwns) {
  EXPECT_THAT(slowest_of_rings(planned({{2}, {2}}, 100)), ElementsAre(RoundCost{0, 2e6, 2}, RoundCost{1, 2e6, 2}));
  const std::vector<RoundCost> four = slowest_of_rings(planned({{2}, {2}, {2}, {2}}, 7));
  EXPECT_DOUBLE_EQ(four[0].bytes, 3e6);
  EXPECT_DOUBLE_EQ(four[0].link_s, 3);
}

TEST(Averaging, TheSlowestMemberOfARingIsTheOneWithTheMostToMoveOverItsLink) {
  Plan plan = planned({{2}, {1, 3}}, 100);  // nodes 0 and 1; 2, 3 and 4
  EXPECT_THAT(slowest_of_rings(plan), ElementsAre(RoundCost{0, 2e6, 2}, RoundCost{0, 2e6, 2}, RoundCost{1, 2e6, 2}));
  plan.pool.nodes[2].bandwidth_mbps = 2;
  EXPECT_THAT(slowest_of_rings(plan), ElementsAre(RoundCost{2, 1e6, 4}, RoundCost{0, 2e6, 2}, RoundCost{1, 2e6, 2}));
}

TEST(Averaging, AnOnlyClusterHasNoRounds) { EXPECT_THAT(slowest_of_rings(planned({{2}}, 1)), IsEmpty()); }

TEST(Averaging, OtherIntervalsArePredictedAsIfPlannedWithThem) {
  const Plan often = planned({{2}, {1, 3}}, 3);
  for (const int updates : {1, 3, 10, 1000}) {
    EXPECT_DOUBLE_EQ(samples_per_s_averaging_every(often, updates), planned({{2}, {1, 3}}, updates).samples_per_s)
        << updates;
  }
  EXPECT_DOUBLE_EQ(samples_per_s_averaging_every(often, 0), 2 * 64 / 0.2);
}

// A node computes for 0.2 s per batch, and a round is 2 s of its link: in ten batches it costs nothing, in nine 10 %.
TEST(Averaging, MattersLittleFromTheFewestUpdatesOnThatCostLessThanAHundredth) {
  for (const int planned_with : {1, 2, 10, 100}) {
    const Plan plan = planned({{2}, {2}}, planned_with);
    EXPECT_EQ(fewest_updates_that_matter_little(plan), 10);
    const double without = samples_per_s_averaging_every(plan, 0);
    EXPECT_GT(samples_per_s_averaging_every(plan, 10), 0.99 * without);
    EXPECT_LT(samples_per_s_averaging_every(plan, 9), 0.99 * without);
  }
  EXPECT_EQ(fewest_updates_that_matter_little(planned({{2}, {2}}, 100, 0.5)), 5) << "half the bytes";
  Plan slow = planned({{2}, {2}}, 100);
  for (PoolNode& node : slow.pool.nodes) node.bandwidth_mbps = 0.35;  // a round is 45.7 s
  EXPECT_EQ(fewest_updates_that_matter_little(slow), 227) << "0.69 %, where 226 updates cost 1.13 %";
  EXPECT_EQ(fewest_updates_that_matter_little(planned({{2}}, 100)), 1) << "nothing to average";
}

TEST(Averaging, NoNumberOfUpdatesIsGivenWhereNothingTrains) {
  Plan plan = planned({{2}, {2}}, 100);
  plan.batch = 0;
  EXPECT_EQ(fewest_updates_that_matter_little(plan), std::nullopt);
}

TEST(Averaging, IsExplainedByRoundAndByReduceFactor) {
  const std::string said = explain(planned({{2}, {1, 3}}, 100));
  EXPECT_THAT(said, HasSubstr("Averaging, one round\n"
                              "rings  slowest member         each way  of its link\n"
                              " 0, 1  node_0 (0.0.0.0:8080)   2.00 MB       2.00 s\n"
                              "    2  node_1 (0.0.0.0:8081)   2.00 MB       2.00 s\n"));
  EXPECT_THAT(said, HasSubstr("Averaging over 3 rings every 100 updates takes at most 10 % of a link's time"));
  EXPECT_THAT(said, HasSubstr("From a reduce_factor of 10 on, averaging costs less than 1 % of the samples/s.\n"));
}

TEST(Averaging, WhatTooFrequentAveragingCostsIsSaid) {
  EXPECT_THAT(explain(planned({{2}, {2}}, 4)),  // 0.5 s of link for 0.2 s of work
              HasSubstr("Averaging every 4 updates costs 60 % of the samples/s; from a reduce_factor of 10 on, less "
                        "than 1 %.\n"));
  EXPECT_THAT(explain(planned({{2}, {2}}, 1)), HasSubstr("Averaging every update costs 90 % of the samples/s; from"));
}

TEST(Averaging, ThatLimitsAClusterIsNamedWithWhatWouldHelp) {
  EXPECT_EQ(limit_sentence(planned({{2}, {2}}, 4), 0),
            "node_0 (0.0.0.0:8080) sends for 500 ms per batch (0 B, and 500 kB of averaging); averaging less often, "
            "compression, or more bandwidth there, would help");
}

TEST(Averaging, ThatDoesNotMatterAtAllIsSaidToo) {
  Plan plan = planned({{2}, {2}}, 100);
  for (PoolNode& node : plan.pool.nodes) node.bandwidth_mbps = 100'000;
  EXPECT_THAT(explain(plan), HasSubstr("Averaging every update already costs less than 1 % of the samples/s.\n"));
  EXPECT_THAT(explain(planned({{2}}, 1)), Not(HasSubstr("Averaging")));
}

}  // namespace
}  // namespace ravnest::plan
