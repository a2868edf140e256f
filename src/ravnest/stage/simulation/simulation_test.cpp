// What stage.h and ending.h promise, in drawn clusters; `ravnest simulate --protocol pipeline` runs the same for as
// long as one likes.
#include "ravnest/stage/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ravnest::stage {
namespace {

using testing::HasSubstr;

// In several tests, so that they run side by side.
class PipelineSimulation : public testing::TestWithParam<int> {};

TEST_P(PipelineSimulation, PromisesAreKept) {
  constexpr std::uint64_t kSeeds = 5000;
  SimulationOutcome total;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * kSeeds + i;
    const SimulationOutcome outcome = simulate(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    total.passes += outcome.passes;
    total.misfits += outcome.misfits;
    total.faults += outcome.faults;
    total.failures += outcome.failures;
    total.agreements += outcome.agreements;
    total.rounds += outcome.rounds;
    total.averagings += outcome.averagings;
    total.snapshots += outcome.snapshots;
    total.stale += outcome.stale;
  }
  // A simulation in which nothing happens proves nothing.
  EXPECT_GT(total.passes, 5 * kSeeds);
  EXPECT_GT(total.misfits, kSeeds);
  EXPECT_GT(total.faults, kSeeds / 10);
  EXPECT_GT(total.failures, kSeeds / 2);
  EXPECT_GT(total.agreements, kSeeds / 20);
  EXPECT_GT(total.rounds, kSeeds);
  EXPECT_GT(total.averagings, kSeeds / 2);
  EXPECT_GT(total.snapshots, kSeeds / 2);
  EXPECT_GT(total.stale, kSeeds);
}

INSTANTIATE_TEST_SUITE_P(Parts, PipelineSimulation, testing::Range(0, 4));

std::vector<std::string> story(std::uint64_t seed) {
  std::vector<std::string> lines;
  simulate(seed, [&](const std::string& line) { lines.push_back(line); });
  return lines;
}

TEST(PipelineSimulationItself, GivesTheSameEventsForTheSameSeed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(simulate(seed).digest, simulate(seed).digest);
    EXPECT_EQ(story(seed), story(seed));
    EXPECT_NE(simulate(seed).digest, simulate(seed + 1000).digest);
  }
}

TEST(PipelineSimulationItself, TellingChangesNothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(simulate(seed, [](const std::string&) {}).digest, simulate(seed).digest);
  }
}

TEST(PipelineSimulationItself, NoChoicesAreTheSimplestRun) {
  const SimulationOutcome outcome = replay({});
  EXPECT_EQ(outcome.violation, "");
  EXPECT_EQ(outcome.stages, 2);
  EXPECT_EQ(outcome.passes, 1U);
}

// The first seed at which the checker finds what a driver does wrong; as the breach of that promise, if one is named.
SimulationOutcome found(Sabotage sabotage, std::optional<Promise> promise = {}) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    SimulationOutcome outcome = simulate(seed, {}, sabotage);
    if (!outcome.violation.empty() && outcome.promise == promise.value_or(outcome.promise)) return outcome;
  }
  return {};
}

TEST(Sabotage, AnAnswerThatComesTwiceIsFound) {
  EXPECT_THAT(found(Sabotage::kAnswersTwice).violation, HasSubstr("answer to pass"));
}

TEST(Sabotage, AForwardThatNeverComesIsFoundAsAStandstill) {
  EXPECT_EQ(found(Sabotage::kForgetsAForward).promise, Promise::kNothingHangs);
  EXPECT_THAT(found(Sabotage::kForgetsAForward).violation, HasSubstr("waits, after"));
}

TEST(Sabotage, ACallThatIsClosedBeforeAllAreThroughIsFound) {
  EXPECT_EQ(found(Sabotage::kClosesAlone).promise, Promise::kCallsTogether);
}

TEST(Sabotage, AGateThatIsLeftOpenIsFound) {
  EXPECT_THAT(found(Sabotage::kIgnoresUpdates).violation, HasSubstr("stage 1 begins pass"));
}

TEST(Sabotage, AWindowThatIsTooWideIsFound) {
  EXPECT_THAT(found(Sabotage::kWidensTheWindow, Promise::kWindow).violation, HasSubstr("in flight"));
}

TEST(Sabotage, AFailureThatIsKeptQuietIsFound) {
  EXPECT_EQ(found(Sabotage::kHidesItsFailure).promise, Promise::kFailureTold);
}

TEST(Sabotage, StagesThatEndWithoutHearingTheOthersAreFound) {
  EXPECT_EQ(found(Sabotage::kDoesNotWait).promise, Promise::kOneReason);
}

TEST(Sabotage, WeightsThatAreGivenBeforeTheUpdateAreFound) {
  EXPECT_EQ(found(Sabotage::kGivesTooSoon).promise, Promise::kRoundVersion);
}

TEST(Sabotage, ASnapshotThatIsTakenBeforeTheUpdateIsFound) {
  EXPECT_EQ(found(Sabotage::kSnapshotTooSoon).promise, Promise::kCheckpoints);
}

TEST(Sabotage, AResultThatIsNotTakenInIsFound) {
  EXPECT_NE(found(Sabotage::kSkipsAResult, Promise::kRoundTaken).violation, "");
}

TEST(Sabotage, ARootThatDoesNotWaitForTheLastRoundIsFound) {
  EXPECT_THAT(found(Sabotage::kHoldsByItself, Promise::kRounds).violation, HasSubstr("the root begins round 2"));
  EXPECT_THAT(found(Sabotage::kHoldsByItself, Promise::kRoundTaken).violation, HasSubstr("stage 0 takes in round 1"));
}

TEST(Shrinking, FindsAShortRunThatBreaksTheSamePromise) {
  for (const Sabotage sabotage :
       {Sabotage::kAnswersTwice, Sabotage::kForgetsAForward, Sabotage::kIgnoresUpdates, Sabotage::kHidesItsFailure,
        Sabotage::kDoesNotWait, Sabotage::kGivesTooSoon, Sabotage::kSkipsAResult, Sabotage::kHoldsByItself}) {
    const SimulationOutcome broken = found(sabotage);
    const SimulationOutcome shrunk = shrink(broken, sabotage);
    EXPECT_EQ(shrunk.promise, broken.promise);
    EXPECT_LE(shrunk.stages, 5) << shrunk.violation;
    EXPECT_LE(shrunk.passes, 9U) << shrunk.violation;
    EXPECT_LE(std::ranges::count_if(shrunk.choices, [](std::uint64_t choice) { return choice > 0; }), 20)
        << shrunk.violation;
    EXPECT_EQ(replay(shrunk.choices, {}, sabotage).violation, shrunk.violation);
  }
}

TEST(Shrinking, TellsTheShortRunEventByEvent) {
  const SimulationOutcome shrunk = shrink(found(Sabotage::kAnswersTwice), Sabotage::kAnswersTwice);
  std::string told;
  replay(
      shrunk.choices, [&](const std::string& line) { told += line + "\n"; }, Sabotage::kAnswersTwice);
  EXPECT_THAT(told, HasSubstr("2 stages, async"));
  EXPECT_THAT(told, HasSubstr("stage 0 begins the forward of pass 0"));
  EXPECT_THAT(told, HasSubstr("stage 0 hears an answer to pass 0 from stage 1"));
  EXPECT_THAT(told, HasSubstr("BROKEN: a message that fits is taken; but stage 0 says: an answer to pass 0"));
}

TEST(Shrinking, EndsAfterAsManyRunsAsItIsGiven) {
  const SimulationOutcome broken = found(Sabotage::kForgetsAForward);
  EXPECT_EQ(shrink(broken, Sabotage::kForgetsAForward, 0).choices, broken.choices);
}

}  // namespace
}  // namespace ravnest::stage
