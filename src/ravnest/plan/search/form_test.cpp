#include "ravnest/plan/search/form.h"

#include <gmock/gmock.h>

#include "ravnest/plan/testing/drawn_pool.h"
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

// Under a sanitizer fewer must do; `make soak` compares thousands.
#ifdef RAVNEST_SANITIZED
constexpr int kPools = 30;
constexpr int kMiddlingPools = 4;
#else
constexpr int kPools = 300;
constexpr int kMiddlingPools = 100;
#endif

TEST(Form, SmallPoolsReach98PercentOfTheBruteForceOptimum) {
  int formed = 0;
  int refused = 0;
  int spares = 0;
  for (int seed = 0; seed < kPools; ++seed) {
    const Comparison made = compared_with_brute_force(drawn_pool(seed));
    EXPECT_EQ(made.violation, "") << "seed " << seed;
    ++(made.possible() ? formed : refused);
    if (made.spares > 0) ++spares;
  }
  EXPECT_GT(formed, kPools / 3);
  EXPECT_GT(refused, kPools / 20);
  EXPECT_GT(spares, kPools / 60);
}

// Here not every order is tried, and groupings are scored with less care.
TEST(Form, MiddlingPoolsReach90PercentOfTheBruteForceOptimum) {
  for (int seed = 0; seed < kMiddlingPools; ++seed) {
    const Comparison made = compared_with_brute_force(drawn_pool(seed, {.least = 8, .most = 10}), 0.9);
    EXPECT_EQ(made.violation, "") << "seed " << seed;
  }
}

// Where too few places to cut, a hasty cut or too few orders once led to the wrong clusters or spares.
TEST(Form, PoolsThatALessCarefulSearchMissedReach98Percent) {
  for (const std::uint64_t seed : {246, 359, 615, 838, 2346, 3734, 5155, 5442}) {
    EXPECT_EQ(compared_with_brute_force(drawn_pool(seed)).violation, "") << "seed " << seed;
  }
}

TEST(Form, TheSameSeedGivesTheSamePlan) {
  for (int seed = 0; seed < 5; ++seed) {
    const DrawnPool drawn = drawn_pool(seed, {.most = 8});
    const Result<Formation> first = form_clusters(drawn.costs, drawn.pool, drawn.options);
    const Result<Formation> second = form_clusters(drawn.costs, drawn.pool, drawn.options);
    ASSERT_EQ(first.ok(), second.ok());
    if (!first.ok()) continue;
    ASSERT_EQ(first->clusters.size(), second->clusters.size());
    for (std::size_t c = 0; c < first->clusters.size(); ++c) {
      EXPECT_EQ(first->clusters[c].nodes, second->clusters[c].nodes);
      EXPECT_EQ(first->clusters[c].cutting.cuts, second->clusters[c].cutting.cuts);
    }
  }
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
