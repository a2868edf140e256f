// Promises of endpoint.h under random faults; `transport_simulation --seeds N` runs the same for as long as one likes.
#include "ravnest/transport/testing/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ravnest::transport {
namespace {

// Of each part. All parts are some eleven seconds of one core; sanitizers cost four times as much, or more.
#ifdef RAVNEST_SANITIZED
constexpr std::uint64_t kSeeds = 50;
#else
constexpr std::uint64_t kSeeds = 700;
#endif

// In several tests, so that they run side by side and each stays well below its time limit.
class Simulation : public testing::TestWithParam<int> {};

TEST_P(Simulation, PromisesAreKeptUnderRandomFaults) {
  SimulationOutcome total;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * 1'000'000 + i;
    const SimulationOutcome outcome = simulate(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    total += outcome;
  }
  // A simulation in which nothing happens proves nothing.
  EXPECT_GT(total.arrived, 10 * kSeeds);
  EXPECT_GT(total.failed, kSeeds / 10);
  EXPECT_GT(total.cuts, kSeeds / 2);
  EXPECT_GT(total.restarts, kSeeds / 10);
  EXPECT_GT(total.losses, kSeeds / 10);
}

INSTANTIATE_TEST_SUITE_P(Parts, Simulation, testing::Range(1, 5));

TEST(SimulationItself, GivesTheSameEventsForTheSameSeed) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<std::string> first;
    std::vector<std::string> second;
    const auto one = simulate(seed, [&](const std::string& line) { first.push_back(line); });
    const auto other = simulate(seed, [&](const std::string& line) { second.push_back(line); });
    ASSERT_EQ(first, second) << "seed " << seed;
    ASSERT_EQ(one.digest, other.digest);
    ASSERT_NE(one.digest, simulate(seed + 1000).digest);
  }
}

}  // namespace
}  // namespace ravnest::transport
