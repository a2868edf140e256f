// A stage's part in the rounds in which clusters average their weights.
#include <array>

#include "ravnest/stage/testing/stage.h"

namespace ravnest::stage::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::PassHead;

constexpr std::array kSchedules = {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe};

StageOptions averaging_root(std::uint64_t every, AverageMode mode = AverageMode::kOverlap, int count = 2,
                            Schedule schedule = Schedule::kAsync, int window = 0) {
  StageOptions options = chain(0, count, schedule, window);
  options.rounds = {.held = true, .every = every, .mode = mode};
  return options;
}

PassHead marked(std::uint64_t pass, std::uint64_t round, std::uint64_t updates = 0) {
  PassHead made = head(pass, true, updates);
  made.round = round;
  return made;
}

// A cluster of one stage computes all that there is, and every round holds as soon as it is entered. Passes that take
// part in a round, as "1@0": round 1 with pass 0.
std::vector<std::string> rounds_by_pass(Stage& root) {
  std::vector<std::string> rounds;
  while (const auto work = root.next()) {
    root.done(*work);
    if (work->kind != WorkKind::kForward || work->head.round == 0) continue;
    rounds.push_back(text(work->head.round, "@", work->head.pass));
    EXPECT_TRUE(root.on_held(work->head.round).ok());
  }
  return rounds;
}

Offer of_epoch(std::uint64_t epoch, bool update = true) {
  Offer made;
  made.epoch = epoch;
  made.update = update;
  return made;
}

// What an update takes and gives, as "U1 takes 1 gives 2"; other work as `word` has it.
std::vector<std::string> do_all_with_rounds(Stage& stage) {
  std::vector<std::string> words;
  while (const auto work = stage.next()) {
    stage.done(*work);
    std::string& said = words.emplace_back(word(*work));
    if (work->takes > 0) said += text(" takes ", work->takes);
    if (work->gives > 0) said += text(" gives ", work->gives);
  }
  return words;
}

TEST(AverageModes, NamesAreReadBack) {
  for (const AverageMode mode : {AverageMode::kOverlap, AverageMode::kDrain}) {
    EXPECT_EQ(*parse_average_mode(name(mode)), mode);
  }
  EXPECT_THAT(parse_average_mode("sometimes").status().message(), HasSubstr("overlap and drain"));
}

// -- when a round is due

TEST(Rounds, AreNotEnteredWhereThereAreNoOtherClusters) {
  Stage root(chain(0, 1));
  offer(root, 6);
  root.call_round();
  EXPECT_THAT(rounds_by_pass(root), IsEmpty());
}

TEST(Rounds, AreDueEverySoManyUpdates) {
  for (const Schedule schedule : kSchedules) {
    Stage root(averaging_root(3, AverageMode::kOverlap, 1, schedule));
    offer(root, 9);
    EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@2", "2@5", "3@8")) << name(schedule);
  }
}

TEST(Rounds, CountUpdatesNotPasses) {
  for (const Schedule schedule : kSchedules) {
    Stage root(averaging_root(2, AverageMode::kOverlap, 1, schedule));
    for (std::uint64_t batch = 0; batch < 8; ++batch) root.offer(part_of(batch, 0, 1, batch % 2 == 1));
    EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@3", "2@7")) << name(schedule);
  }
}

TEST(Rounds, AreDueWithTheLastPartOfABatch) {
  for (const Schedule schedule : kSchedules) {
    Stage root(averaging_root(1, AverageMode::kOverlap, 1, schedule));
    for (std::uint32_t part = 0; part < 3; ++part) root.offer(part_of(0, part, 3));
    EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@2")) << name(schedule);
  }
}

TEST(Rounds, AreDueOncePerEpochWithTheFirstUpdateOfTheNext) {
  Stage root(averaging_root(0, AverageMode::kOverlap, 1));
  for (const std::uint64_t epoch : {0, 0, 1, 1, 1, 2, 2}) root.offer(of_epoch(epoch));
  EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@2", "2@5"));
}

TEST(Rounds, OfAnEpochWaitForItsFirstUpdate) {
  Stage root(averaging_root(0, AverageMode::kOverlap, 1));
  root.offer(of_epoch(0, false));
  root.offer(of_epoch(1, false));
  root.offer(of_epoch(1));
  EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@2"));
}

TEST(Rounds, AreDueInTheEpochsOfALaterCallThatCountsThemAnew) {
  Stage root(averaging_root(0, AverageMode::kOverlap, 1));
  for (const std::uint64_t epoch : {0, 1, 0, 1}) root.offer(of_epoch(epoch));
  EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@1", "2@2", "3@3"));
}

TEST(Rounds, ThatAreCalledAreDueWithTheNextUpdateAndTheCountBeginsAnew) {
  Stage root(averaging_root(3, AverageMode::kOverlap, 1));
  root.call_round();
  root.offer(part_of(0, 0, 2));
  root.offer(part_of(0, 1, 2));
  offer(root, 4);
  EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@1", "2@4"));
}

TEST(Rounds, ThatAreCalledForAgainWhileOneIsUnderWayAreThatOne) {
  Stage root(averaging_root(100, AverageMode::kOverlap, 1));
  root.call_round();
  offer(root, 1);
  EXPECT_THAT(do_all_with_rounds(root), ElementsAre("F0", "B0", "U0 gives 1"));
  root.call_round();
  root.join_round();
  EXPECT_FALSE(root.waits_for_round());
  ASSERT_TRUE(root.on_held(1).ok());
  offer(root, 2);
  EXPECT_THAT(rounds_by_pass(root), IsEmpty());
}

TEST(Rounds, TakeNoPartInPassesThatDoNotTrain) {
  Stage root(averaging_root(1, AverageMode::kOverlap, 1));
  root.offer(kEvaluate);
  root.call_round();
  root.offer(kEvaluate);
  EXPECT_THAT(rounds_by_pass(root), IsEmpty());
}

TEST(Rounds, AreNotBegunBeforeTheLastHolds) {
  for (const Schedule schedule : kSchedules) {
    Stage root(averaging_root(2, AverageMode::kOverlap, 1, schedule));
    offer(root, 4);
    EXPECT_THAT(do_all_with_rounds(root), ElementsAre("F0", "B0", "U0", "F1", "B1", "U1 gives 1", "F2", "B2", "U2"));
    EXPECT_TRUE(root.waits_for_round());
    EXPECT_EQ(root.waiting(), 1U);
    ASSERT_TRUE(root.on_held(1).ok());
    EXPECT_FALSE(root.waits_for_round());
    EXPECT_THAT(do_all_with_rounds(root), ElementsAre("F3", "B3", "U3 takes 1 gives 2")) << name(schedule);
  }
}

TEST(Rounds, WaitedForByNothingThatIsNotDue) {
  Stage root(averaging_root(2, AverageMode::kOverlap, 1));
  offer(root, 2);
  do_all(root);
  EXPECT_FALSE(root.waits_for_round());  // nothing is offered
  offer(root, 1);
  EXPECT_FALSE(root.waits_for_round());
  EXPECT_THAT(do_all(root), ElementsAre("F2", "B2", "U2"));
}

TEST(Rounds, HaveTheSamplesOfThePassesSinceTheLast) {
  Stage root(averaging_root(2, AverageMode::kOverlap, 1));
  for (const std::uint64_t samples : {1, 2, 4, 8, 16}) {
    Offer made;
    made.samples = samples;
    root.offer(made);
  }
  Offer validation = kEvaluate;
  validation.samples = 100;
  root.offer(validation);
  EXPECT_THAT(rounds_by_pass(root), ElementsAre("1@1", "2@3"));
  EXPECT_EQ(root.rounds().round_samples(), 4U + 8U);
  EXPECT_EQ(root.rounds().samples_since(), 16U);
}

// -- what an update takes and gives

TEST(MarkedUpdates, GiveAtEveryStageToTheRoundOfTheirPass) {
  Stage leaf(chain(1, 2));
  ASSERT_TRUE(leaf.on_forward(0, marked(0, 1)).ok());
  ASSERT_TRUE(leaf.on_forward(0, head(1)).ok());
  EXPECT_THAT(do_all_with_rounds(leaf), ElementsAre("F0", "B0", "U0 gives 1", "F1", "B1", "U1"));
  EXPECT_EQ(leaf.rounds().entered(), 1U);
}

TEST(MarkedUpdates, AreFollowedByTheFirstUpdateAfterTheRoundHoldsWhichTakesItInOnce) {
  Stage leaf(chain(1, 2, Schedule::kAsync, 4));
  ASSERT_TRUE(leaf.on_forward(0, marked(0, 1)).ok());
  ASSERT_TRUE(leaf.on_forward(0, head(1)).ok());
  do_all(leaf);
  EXPECT_EQ(leaf.rounds().taken(), 0U);
  ASSERT_TRUE(leaf.on_held(1).ok());
  EXPECT_THAT(do_all(leaf), IsEmpty());  // it is taken in with an update, and none is due
  EXPECT_EQ(leaf.rounds().held(), 1U);
  ASSERT_TRUE(leaf.on_forward(0, head(2, false)).ok());
  ASSERT_TRUE(leaf.on_forward(0, head(3)).ok());
  ASSERT_TRUE(leaf.on_forward(0, head(4)).ok());
  EXPECT_THAT(do_all_with_rounds(leaf), ElementsAre("F2", "B2", "F3", "B3", "U2 takes 1", "F4", "B4", "U3"));
  EXPECT_EQ(leaf.rounds().taken(), 1U);
  EXPECT_EQ(leaf.counts().rounds, 1U);
}

TEST(MarkedUpdates, WaitAtAStageThatDoesNotKnowYetThatTheLastRoundHolds) {
  Stage leaf(chain(1, 2));
  ASSERT_TRUE(leaf.on_forward(0, marked(0, 1)).ok());
  do_all(leaf);
  ASSERT_TRUE(leaf.on_forward(0, marked(1, 2)).ok());
  EXPECT_THAT(do_all(leaf), ElementsAre("F1", "B1"));
  EXPECT_FALSE(leaf.idle());
  ASSERT_TRUE(leaf.on_held(1).ok());
  EXPECT_THAT(do_all_with_rounds(leaf), ElementsAre("U1 takes 1 gives 2"));
  EXPECT_TRUE(leaf.idle());
}

TEST(MarkedUpdates, ThatWaitAreLeftToDo) {
  Stage leaf(chain(1, 2));
  ASSERT_TRUE(leaf.on_forward(0, marked(0, 1)).ok());
  do_all(leaf);
  ASSERT_TRUE(leaf.on_forward(0, marked(1, 2)).ok());
  do_all(leaf);
  EXPECT_EQ(leaf.passes_done(), 2U);
  EXPECT_FALSE(leaf.settled());
  ASSERT_TRUE(leaf.on_held(1).ok());
  do_all(leaf);
  EXPECT_TRUE(leaf.settled());
}

TEST(MarkedUpdates, OfTwoPassesForOneRoundAreRefused) {
  Stage leaf(chain(1, 2, Schedule::kAsync, 4));
  const auto second_of = [](std::uint64_t round) {
    return [round](Stage& stage) { return stage.on_forward(0, marked(3, round)); };
  };
  ASSERT_TRUE(leaf.on_forward(0, marked(0, 1)).ok());
  expect_refused(leaf, second_of(1), "takes part in round 1, which another pass does");
  do_all(leaf);
  ASSERT_TRUE(leaf.on_forward(0, marked(1, 2)).ok());
  EXPECT_THAT(do_all(leaf), ElementsAre("F1", "B1"));  // its update waits for round 1 to hold
  expect_refused(leaf, second_of(2), "takes part in round 2, which another pass does");
}

}  // namespace
}  // namespace ravnest::stage::testing
