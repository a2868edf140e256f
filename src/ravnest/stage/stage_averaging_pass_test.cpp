// Passes by which a cluster averages its weights with others, and what does not fit into rounds.
#include "ravnest/stage/testing/stage.h"

namespace ravnest::stage::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::PassHead;
using wire::PassKind;

StageOptions draining_root(Schedule schedule = Schedule::kAsync, std::uint64_t every = 1, int window = 0) {
  StageOptions options = chain(0, 3, schedule, window);
  options.rounds = {.held = true, .every = every, .mode = AverageMode::kDrain};
  return options;
}

PassHead averaging(std::uint64_t pass, std::uint64_t round, std::uint64_t updates = 0) {
  return {.pass = pass, .kind = PassKind::kAverage, .updates = updates, .round = round};
}

void answer(Stage& root, std::uint64_t pass) { ASSERT_TRUE(root.on_backward(1, pass).ok()); }

// -- at the root

TEST(Drain, AnAveragingPassFollowsTheUpdateWhenNothingIsInFlight) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    Stage root(draining_root(schedule, 2));
    offer(root, 3);
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      do_all(root);
      answer(root, pass);
    }
    EXPECT_THAT(do_all(root), ElementsAre("B1", "U1", "F2")) << name(schedule);
    EXPECT_EQ(root.rounds().entered(), 1U);
    EXPECT_EQ(root.waiting(), 1U);
  }
}

TEST(Drain, PassesInFlightComeToTheirEndFirst) {
  Stage root(draining_root(Schedule::kAsync, 2, 3));
  offer(root, 3);
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1"));
  answer(root, 0);
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0"));
  answer(root, 1);
  EXPECT_THAT(do_all(root), ElementsAre("B1", "U1", "F2"));
}

TEST(Drain, WhatFollowsWaitsUntilTheRoundHoldsAndAllHaveAnswered) {
  Stage root(draining_root());
  offer(root, 2);
  do_all(root);
  answer(root, 0);
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F1"));
  EXPECT_TRUE(root.waits_for_round());
  answer(root, 1);
  EXPECT_THAT(do_all(root), IsEmpty());
  ASSERT_TRUE(root.on_held(1).ok());
  EXPECT_FALSE(root.waits_for_round());
  EXPECT_THAT(do_all(root), ElementsAre("M1"));
  EXPECT_EQ(root.rounds().taken(), 1U);
  ASSERT_TRUE(root.on_backward(2, 1).ok());
  const auto end = root.next();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(word(*end), "A1");
  root.done(*end);
  const auto next = root.next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(word(*next), "F2");
  EXPECT_EQ(next->head.updates, 2U);  // the update, and the averaging pass
  EXPECT_EQ(next->head.step, 1U);     // of the passes that train
}

TEST(Drain, OfAnEpochComesAfterTheFirstUpdateOfTheNext) {
  Stage root(draining_root(Schedule::kAsync, 0, 1));
  for (const std::uint64_t epoch : {0, 1, 1}) {
    Offer made;
    made.epoch = epoch;
    root.offer(made);
  }
  do_all(root);
  answer(root, 0);
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F1"));
  EXPECT_EQ(root.rounds().entered(), 0U);
  answer(root, 1);
  EXPECT_THAT(do_all(root), ElementsAre("B1", "U1", "F2"));
  EXPECT_EQ(root.rounds().entered(), 1U);
}

TEST(AveragingPass, IsBegunWhenTheRootIsAskedTo) {
  Stage root(chain(0, 3));
  root.average();
  EXPECT_FALSE(root.idle());
  const auto work = root.next();
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->head, averaging(0, 1));
  EXPECT_THAT(root.neighbours(PassKind::kAverage).consumers, ElementsAre(1, 2));
  EXPECT_THAT(root.neighbours(PassKind::kAverage).producers, IsEmpty());
}

TEST(AveragingPass, WaitsForValidationInFlight) {
  Stage root(chain(0, 2));
  root.offer(kEvaluate);
  do_all(root);
  root.average();
  EXPECT_THAT(do_all(root), IsEmpty());
  answer(root, 0);
  EXPECT_THAT(do_all(root), ElementsAre("A0", "F1"));
}

TEST(AveragingPass, ComesBeforeWhatWasOfferedAndNotBegun) {
  Stage root(chain(0, 2));
  root.average();
  offer(root, 1);
  EXPECT_THAT(do_all(root), ElementsAre("F0"));
  EXPECT_EQ(root.waiting(), 1U);
}

TEST(AveragingPass, WaitsForTheLastRoundAndTakesItInBeforeItGives) {
  StageOptions options = chain(0, 1);
  options.rounds = {.held = true, .every = 1};
  Stage root(options);
  offer(root, 1);
  do_all(root);
  root.average();
  EXPECT_TRUE(root.waits_for_round());
  EXPECT_THAT(do_all(root), IsEmpty());
  ASSERT_TRUE(root.on_held(1).ok());
  const auto work = root.next();
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->takes, 1U);
  EXPECT_EQ(work->head.round, 2U);
  root.done(*work);
  EXPECT_THAT(do_all(root), IsEmpty());
  ASSERT_TRUE(root.on_held(2).ok());
  EXPECT_THAT(do_all(root), ElementsAre("M1", "A1"));
  EXPECT_EQ(root.counts().rounds, 2U);
  EXPECT_EQ(root.counts().updates, 1U);  // by the optimizer
  EXPECT_EQ(root.counts().evaluated, 0U);
  EXPECT_TRUE(root.idle());
}

TEST(AveragingPass, InSyncBeginsBetweenBatches) {
  Stage root(chain(0, 1, Schedule::kSync));
  root.offer(part_of(0, 0, 2));
  EXPECT_THAT(do_all(root), ElementsAre("F0", "B0"));
  root.average();
  EXPECT_THAT(do_all(root), IsEmpty());
  root.offer(part_of(0, 1, 2));
  root.offer(part_of(1, 0, 1));
  EXPECT_THAT(do_all(root), ElementsAre("F1", "B1", "U0", "F2"));
  EXPECT_EQ(root.rounds().entered(), 1U);
}

TEST(AveragingPass, InGpipeDoesNotWaitForBackwardsThatWaitForTheRestOfTheirBatch) {
  Stage root(chain(0, 1, Schedule::kGpipe));
  root.offer(part_of(0, 0, 2));
  EXPECT_THAT(do_all(root), ElementsAre("F0"));
  root.average();
  root.offer(part_of(0, 1, 2));
  root.offer(part_of(1, 0, 1));
  EXPECT_THAT(do_all(root), ElementsAre("F1", "B0", "B1", "U0", "F2"));
  EXPECT_EQ(root.rounds().entered(), 1U);
}

TEST(AveragingPass, IsNotNeededForARoundOfOthersThatABatchTakesPartIn) {
  StageOptions options = chain(0, 1, Schedule::kSync);
  options.rounds = {.held = true, .every = 1};
  Stage root(options);
  root.offer(part_of(0, 0, 2));
  do_all(root);
  root.join_round();
  EXPECT_FALSE(root.idle());
  root.offer(part_of(0, 1, 2));
  EXPECT_THAT(do_all(root), ElementsAre("F1", "B1", "U0"));
  ASSERT_TRUE(root.on_held(1).ok());
  EXPECT_THAT(do_all(root), IsEmpty());
  EXPECT_EQ(root.rounds().entered(), 1U);
  EXPECT_TRUE(root.idle());
}

TEST(AveragingPass, EntersARoundOfOthersWhereNoBatchIsBegun) {
  Stage root(chain(0, 1));
  root.join_round();
  offer(root, 1);
  const auto work = root.next();
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->head, averaging(0, 1));
}

// -- at the others

TEST(AveragingPass, ComesStraightFromTheRootAndIsAnsweredWhenItsRoundHolds) {
  for (const int index : {1, 2}) {
    Stage stage(chain(index, 3));
    ASSERT_TRUE(stage.on_forward(0, averaging(0, 1)).ok());
    EXPECT_THAT(do_all(stage), ElementsAre("F0"));
    EXPECT_EQ(stage.rounds().entered(), 1U);
    EXPECT_FALSE(stage.idle());
    ASSERT_TRUE(stage.on_held(1).ok());
    EXPECT_THAT(do_all(stage), ElementsAre("M0", "A0"));
    EXPECT_EQ(stage.updates(), 1U);
    EXPECT_TRUE(stage.idle());
  }
}

TEST(AveragingPass, WaitsForTheUpdateBeforeIt) {
  Stage stage(keeper(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  ASSERT_TRUE(stage.on_forward(0, averaging(1, 1, 1)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0"));
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("U0", "F1"));
}

TEST(AveragingPass, WaitsForNewsOfTheLastRoundAndTakesItIn) {
  Stage leaf(chain(1, 2));
  PassHead marked = head(0);
  marked.round = 1;
  ASSERT_TRUE(leaf.on_forward(0, marked).ok());
  do_all(leaf);
  ASSERT_TRUE(leaf.on_forward(0, averaging(1, 2, 1)).ok());
  EXPECT_THAT(do_all(leaf), IsEmpty());
  ASSERT_TRUE(leaf.on_held(1).ok());
  const auto work = leaf.next();
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(word(*work), "F1");
  EXPECT_EQ(work->takes, 1U);
}

TEST(AveragingPass, CountsAsAnUpdateForTiedWeights) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    Stage keeping(keeper(schedule));
    ASSERT_TRUE(keeping.on_forward(0, averaging(0, 1)).ok());
    EXPECT_THAT(do_all(keeping), ElementsAre("F0"));
    ASSERT_TRUE(keeping.on_held(1).ok());
    EXPECT_THAT(do_all(keeping), ElementsAre("M0", "A0")) << name(schedule);  // no gradients are waited for
    EXPECT_EQ(keeping.updates(), 1U);

    Stage using_them(user(schedule));
    ASSERT_TRUE(using_them.on_forward(0, averaging(0, 1)).ok());
    do_all(using_them);
    ASSERT_TRUE(using_them.on_held(1).ok());
    do_all(using_them);
    EXPECT_EQ(using_them.updates_contained(), 0U);
    ASSERT_TRUE(using_them.on_forward(1, head(1, true, 1)).ok());
    EXPECT_THAT(do_all(using_them), IsEmpty()) << name(schedule);
    ASSERT_TRUE(using_them.on_tied_values(1, 1).ok());
    EXPECT_EQ(using_them.next()->kind, WorkKind::kAdopt);
  }
}

TEST(AveragingPass, IsNotSettledBeforeTiedWeightsAreAdopted) {
  Stage stage(user(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(0, averaging(0, 1)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_held(1).ok());
  do_all(stage);
  EXPECT_EQ(stage.passes_done(), 1U);
  EXPECT_FALSE(stage.settled());
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  do_all(stage);
  EXPECT_TRUE(stage.settled());
}

// -- what does not fit

TEST(MisfitOfRounds, ARoundThatHoldsOutOfOrder) {
  Stage stage(chain(1, 2));
  ASSERT_TRUE(stage.on_forward(0, averaging(0, 1)).ok());
  do_all(stage);
  for (const std::uint64_t round : {0, 2}) {
    expect_refused(
        stage, [&](Stage& s) { return s.on_held(round); }, text("round ", round, " is said to hold"));
  }
  ASSERT_TRUE(stage.on_held(1).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_held(1); }, "the last one that did was 1");
}

TEST(MisfitOfRounds, ARoundThatHoldsBeforeTheStageTakesPart) {
  Stage stage(chain(1, 2));
  expect_refused(
      stage, [](Stage& s) { return s.on_held(1); }, "the last that this stage takes part in is 0");
}

TEST(MisfitOfRounds, AnAveragingPassFromAStageThatIsNotTheRoot) {
  Stage stage(chain(2, 3));
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(1, averaging(0, 1)); }, "sends none here");
}

TEST(MisfitOfRounds, APassOfARoundThatIsNotTheNext) {
  Stage stage(chain(1, 2));
  for (const std::uint64_t round : {0, 2}) {
    expect_refused(
        stage, [&](Stage& s) { return s.on_forward(0, averaging(0, round)); }, "the next one is 1");
  }
  PassHead marked = head(0);
  marked.round = 2;
  expect_refused(
      stage, [&](Stage& s) { return s.on_forward(0, marked); }, "the next one is 1");
}

TEST(MisfitOfRounds, APassWithoutAnUpdateThatTakesPartInOne) {
  Stage stage(chain(1, 2));
  PassHead between = head(0, false);
  PassHead validation = evaluation(0);
  between.round = validation.round = 1;
  for (const PassHead& strange : {between, validation}) {
    expect_refused(
        stage, [&](Stage& s) { return s.on_forward(0, strange); }, "does not change the weights");
  }
}

TEST(MisfitOfRounds, GradientsForAnAveragingPass) {
  Stage async(keeper(Schedule::kAsync));
  Stage sync(keeper(Schedule::kSync));
  for (Stage* stage : {&async, &sync}) {
    ASSERT_TRUE(stage->on_forward(0, averaging(0, 1)).ok());
    do_all(*stage);
    expect_refused(
        *stage, [](Stage& s) { return s.on_tied_gradients(2, 0); }, "where none are waited for");
  }
}

}  // namespace
}  // namespace ravnest::stage::testing
