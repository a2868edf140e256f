// What agreement.h promises, in drawn runs; `agreement_simulation --seeds N` runs the same for as long as one likes.
#include "ravnest/average/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace ravnest::average {
namespace {

using testing::Contains;
using testing::HasSubstr;

// In several tests, so that they run side by side.
class AgreementSimulation : public testing::TestWithParam<int> {};

TEST_P(AgreementSimulation, PromisesAreKept) {
  constexpr std::uint64_t kSeeds = 2000;
  SimulationOutcome total;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * kSeeds + i;
    const SimulationOutcome outcome = simulate(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    total += outcome;
  }
  // A simulation in which nothing happens proves nothing.
  EXPECT_GT(total.attempts, 3 * kSeeds);
  EXPECT_GT(total.commits, 5 * kSeeds);
  EXPECT_GT(total.crashes, kSeeds / 2);
  EXPECT_GT(total.returns, kSeeds / 4);
  EXPECT_GT(total.newcomers, kSeeds / 4);
  EXPECT_GT(total.outs, kSeeds / 4);
  EXPECT_GT(total.partings, kSeeds / 4);
  EXPECT_GT(total.checkpoints, kSeeds);
  EXPECT_GT(total.misfits, kSeeds);
}

INSTANTIATE_TEST_SUITE_P(Parts, AgreementSimulation, testing::Range(0, 4));

std::vector<std::string> story(std::uint64_t seed) {
  std::vector<std::string> lines;
  simulate(seed, [&](const std::string& line) { lines.push_back(line); });
  return lines;
}

TEST(AgreementSimulationItself, GivesTheSameEventsForTheSameSeed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(simulate(seed).digest, simulate(seed).digest);
    EXPECT_EQ(story(seed), story(seed));
    EXPECT_NE(simulate(seed).digest, simulate(seed + 1000).digest);
  }
}

TEST(AgreementSimulationItself, TellingChangesNothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(simulate(seed, [](const std::string&) {}).digest, simulate(seed).digest);
  }
}

// What the checker finds in a thousand runs.
std::set<std::string> found(Sabotage sabotage) {
  std::set<std::string> violations;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) violations.insert(simulate(seed, {}, sabotage).violation);
  return violations;
}

TEST(AgreementSabotage, AResultThatIsClaimedTooEarlyIsFound) {
  EXPECT_THAT(found(Sabotage::kClaimsCompletion), Contains(HasSubstr("has it")));
}

TEST(AgreementSabotage, ALeaderThatDoesNotWaitForItsFollowersIsFound) {
  EXPECT_THAT(found(Sabotage::kDoesNotWait), Contains(HasSubstr(", and cluster ")));
}

TEST(AgreementSabotage, ANewcomerWhoseWeightsCountIsFound) {
  EXPECT_THAT(found(Sabotage::kCountsNewcomers), Contains(HasSubstr("trained from different weights")));
}

TEST(AgreementSabotage, ACheckpointThatNotAllCanMakeIsFound) {
  EXPECT_THAT(found(Sabotage::kClaimsSnapshots), Contains(HasSubstr("which not all can make")));
}

TEST(AgreementSabotage, AStandstillIsFound) {
  EXPECT_THAT(found(Sabotage::kLosesResults), Contains(HasSubstr("waits for ever")));
}

}  // namespace
}  // namespace ravnest::average
