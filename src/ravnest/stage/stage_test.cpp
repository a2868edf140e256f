#include "ravnest/stage/stage.h"

#include "ravnest/stage/testing/stage.h"

namespace ravnest::stage::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::PassHead;
using wire::PassKind;

TEST(Schedule, NamesAreReadBack) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    EXPECT_EQ(*parse_schedule(name(schedule)), schedule);
  }
  EXPECT_THAT(parse_schedule("1f1b").status().message(), HasSubstr("async, sync and gpipe"));
}

// -- the root

TEST(Root, BeginsAsManyPassesAsItsWindowHasRoomFor) {
  Stage root(chain(0, 3, Schedule::kAsync, 2));
  offer(root, 4);
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1"));
  EXPECT_EQ(root.waiting(), 2U);
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F2"));
}

TEST(Root, AWindowOfZeroIsAsManyPassesAsThereAreStages) {
  Stage root(chain(0, 3));
  offer(root, 5);
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1", "F2"));
}

TEST(Root, NumbersPassesInTheOrderOfTheirOffers) {
  Stage root(chain(0, 2, Schedule::kAsync, 9));
  root.offer(part_of(7, 0, 2));
  root.offer(part_of(7, 1, 2));
  const auto first = root.next();
  ASSERT_TRUE(first.has_value());
  root.done(*first);
  const auto second = root.next();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(first->head.pass, 0U);
  EXPECT_EQ(second->head,
            (PassHead{.pass = 1, .step = 1, .batch = 7, .part = 1, .parts = 2, .weight = 1, .update = true}));
}

TEST(Root, StepsCountThePassesThatTrain) {
  Stage root(chain(0, 1));
  root.offer({});
  root.offer(kEvaluate);
  root.offer({});
  std::vector<std::uint64_t> steps;
  while (const auto work = root.next()) {
    root.done(*work);
    if (work->kind == WorkKind::kForward) steps.push_back(work->head.step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 1));
}

TEST(Root, NoUpdateFollowsAPassThatDoesNotTrain) {
  Stage root(chain(0, 1));
  Offer validation = kEvaluate;
  validation.update = true;
  root.offer(validation);
  EXPECT_THAT(do_all(root), ElementsAre("F0", "A0"));
}

TEST(Root, ValidationWaitsForTheEndOfAllPassesThatTrain) {
  Stage root(chain(0, 2, Schedule::kAsync, 4));
  root.offer({});
  root.offer(kEvaluate);
  EXPECT_THAT(do_all(root), ElementsAre("F0"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F1"));
}

TEST(Root, TrainingWaitsForTheEndOfAllPassesThatDoNot) {
  Stage root(chain(0, 2, Schedule::kAsync, 4));
  root.offer(kEvaluate);
  root.offer(kEvaluate);
  root.offer({});
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("A0"));
  ASSERT_TRUE(root.on_backward(1, 1).ok());
  EXPECT_THAT(do_all(root), ElementsAre("A1", "F2"));
}

TEST(Root, ValidationHasAWindowInEverySchedule) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    Stage root(chain(0, 2, schedule, 2));
    for (int pass = 0; pass < 3; ++pass) root.offer(kEvaluate);
    EXPECT_THAT(do_all(root), ElementsAre("F0", "F1")) << name(schedule);
  }
}

TEST(Root, AsksForTheUpdatesThatAllStagesMadeOrAreAboutTo) {
  Stage root(chain(0, 2, Schedule::kAsync, 2));
  offer(root, 3);
  do_all(root);
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  std::vector<std::uint64_t> asked;
  while (const auto work = root.next()) {
    root.done(*work);
    if (work->kind == WorkKind::kForward) asked.push_back(work->head.updates);
  }
  EXPECT_THAT(asked, ElementsAre(1));
}

TEST(Root, IsIdleWhenNothingIsOfferedInFlightOrLeftToDo) {
  Stage root(chain(0, 2));
  EXPECT_TRUE(root.idle());
  root.offer({});
  EXPECT_FALSE(root.idle());
  const auto forward = root.next();
  EXPECT_FALSE(root.idle());
  root.done(*forward);
  EXPECT_FALSE(root.idle());
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  const auto backward = root.next();
  root.done(*backward);
  EXPECT_FALSE(root.idle());
  EXPECT_THAT(do_all(root), ElementsAre("U0"));
  EXPECT_TRUE(root.idle());
}

// -- order

TEST(Order, ForwardsAreTakenInTheOrderOfTheRoot) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0", "F1"));
}

TEST(Order, BackwardsAreTakenInTheOrderOfTheRoot) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 1).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "U0", "B1", "U1"));
}

TEST(Order, BackwardsComeBeforeForwards) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0, false)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_forward(0, head(1, false)).ok());
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "F1"));
}

TEST(Order, TheUpdateComesBeforeAllElse) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1, false)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_forward(0, head(2, false)).ok());
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  ASSERT_TRUE(stage.on_backward(2, 1).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "U0", "B1", "F2"));
}

TEST(Order, AForwardWaitsForAllItsProducers) {
  StageOptions options = chain(2, 4);
  options.train.producers = {0, 1};
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(1, head(0)).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0"));
}

TEST(Order, ABackwardWaitsForAllItsConsumers) {
  StageOptions options = chain(1, 4);
  options.train.consumers = {2, 3};
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(0, head(0, false)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(3, 0).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0"));
}

TEST(Order, AStageThatNobodyReadsIsThroughWithAPassAtOnce) {
  StageOptions options = chain(1, 3);
  options.train.consumers.clear();
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(0, head(0, false)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0", "B0"));
}

TEST(Order, APassThatDoesNotTrainIsAnsweredWithoutWork) {
  Stage leaf(chain(1, 2));
  ASSERT_TRUE(leaf.on_forward(0, evaluation(0)).ok());
  EXPECT_THAT(do_all(leaf), ElementsAre("F0", "A0"));
  EXPECT_EQ(leaf.updates(), 0U);
}

TEST(Order, APassThatDoesNotTrainHasNeighboursOfItsOwn) {
  StageOptions options = chain(1, 4);
  options.evaluate = {.producers = {0}, .consumers = {2, 3}};
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(0, evaluation(0)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0"));
  ASSERT_TRUE(stage.on_backward(3, 0).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("A0"));
}

TEST(OrderDeath, AskingForWorkBeforeTheLastIsDoneEndsTheProcess) {
  Stage root(chain(0, 2));
  root.offer({});
  ASSERT_TRUE(root.next().has_value());
  EXPECT_DEATH((void)root.next(), "before the last was done");
}

// -- what is left when all passes are done

TEST(Settled, IsAStageThatHasMadeTheUpdate) {
  Stage stage(chain(1, 2));
  EXPECT_TRUE(stage.settled());
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  stage.done(*stage.next());
  stage.done(*stage.next());
  EXPECT_EQ(stage.passes_done(), 1U);
  EXPECT_FALSE(stage.settled());
  EXPECT_THAT(do_all(stage), ElementsAre("U0"));
  EXPECT_TRUE(stage.settled());
}

TEST(Settled, IsAStageThatHasAdoptedTiedWeights) {
  Stage stage(user(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(1, head(0)).ok());
  do_all(stage);
  EXPECT_FALSE(stage.settled());
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  EXPECT_FALSE(stage.settled());
  do_all(stage);
  EXPECT_TRUE(stage.settled());
}

// -- counts

TEST(Counts, SayWhatAStageHasDone) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 1).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_forward(0, evaluation(2)).ok());
  do_all(stage);
  const StageCounts expected{.forwards = 2,
                             .backwards = 2,
                             .evaluated = 1,
                             .updates = 2,
                             .staleness_sum = 1,  // pass 1 was begun before the first update and ended after it
                             .staleness_most = 1,
                             .in_flight_most = 2};
  EXPECT_TRUE(stage.counts() == expected);
  EXPECT_EQ(stage.passes_begun(), 3U);
  EXPECT_EQ(stage.updates(), 2U);
}

}  // namespace
}  // namespace ravnest::stage::testing
