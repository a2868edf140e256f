// What rank_ending.h promises, in drawn runs; build/release/tests/soak/rank_ending_simulation runs as many as one
// likes.
#include <gtest/gtest.h>

#include <cstdint>

#include "ravnest/strategy/launch/testing/ending_simulation.h"

namespace ravnest::strategy {
namespace {

constexpr std::uint64_t kSeeds = 20'000;

TEST(RankEndingSimulation, AllThatLiveEndWithOneSentence) {
  EndingsOutcome total;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const EndingsOutcome outcome = simulate_endings(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    total += outcome;
  }
  // A simulation in which nothing happens proves nothing.
  EXPECT_GT(total.failures, kSeeds / 2);
  EXPECT_GT(total.kills, kSeeds / 2);
  EXPECT_GT(total.kills_while_ending, kSeeds / 100);
  EXPECT_GT(total.leaves, kSeeds / 4);
  EXPECT_GT(total.breaks, kSeeds / 2);
  EXPECT_GT(total.endings, kSeeds);
}

class RankEndingSimulationItself : public testing::TestWithParam<EndingSabotage> {};

TEST_P(RankEndingSimulationItself, FindsADriverThatDoesSomethingWrong) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    if (!simulate_endings(seed, {}, GetParam()).violation.empty()) return;
  }
  FAIL() << "nothing is found";
}

INSTANTIATE_TEST_SUITE_P(Sabotages, RankEndingSimulationItself,
                         testing::Values(EndingSabotage::kTellsOnce, EndingSabotage::kHidesItsFailure,
                                         EndingSabotage::kForgetsTheTime));

}  // namespace
}  // namespace ravnest::strategy
