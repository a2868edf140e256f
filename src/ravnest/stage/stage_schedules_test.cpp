#include "ravnest/stage/stage.h"
#include "ravnest/stage/testing/stage.h"

namespace ravnest::stage::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::PassHead;
using wire::PassKind;

// -- schedules

TEST(Async, BeginsPassesWhateverUpdatesAreToCome) {
  Stage root(chain(0, 3, Schedule::kAsync, 3));
  offer(root, 3);
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1", "F2"));
}

TEST(Async, ALaterStageHoldsFewerPasses) {
  Stage stage(chain(1, 3));
  for (std::uint64_t pass = 0; pass < 3; ++pass) ASSERT_TRUE(stage.on_forward(0, head(pass)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0", "F1"));  // of the window's three, the root's one is not here
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "U0", "F2"));
}

TEST(Async, BehindAShortWindowAStageHoldsOnePass) {
  Stage stage(chain(2, 4, Schedule::kAsync, 2));
  for (std::uint64_t pass = 0; pass < 2; ++pass) ASSERT_TRUE(stage.on_forward(1, head(pass)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0"));
}

TEST(Async, WithAWindowOfOneEachPassFollowsTheUpdateOfTheLast) {
  Stage root(chain(0, 2, Schedule::kAsync, 1));
  offer(root, 2);
  EXPECT_THAT(do_all(root), ElementsAre("F0"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F1"));
}

TEST(Sync, ThePassesOfABatchFillTheWindow) {
  Stage root(chain(0, 2, Schedule::kSync, 2));
  for (std::uint32_t part = 0; part < 3; ++part) root.offer(part_of(0, part, 3));
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0", "F2"));
}

TEST(Sync, TheNextBatchBeginsAfterTheUpdateOfTheLast) {
  Stage root(chain(0, 2, Schedule::kSync, 4));
  offer(root, 2);
  EXPECT_THAT(do_all(root), ElementsAre("F0"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0", "U0", "F1"));
}

TEST(Sync, ABatchThatIsNotFollowedByAnUpdateHoldsUpNothing) {
  Stage root(chain(0, 2, Schedule::kSync, 4));
  root.offer(part_of(0, 0, 1, false));
  root.offer(part_of(1, 0, 1, true));
  root.offer(part_of(2, 0, 1, true));
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1"));
}

TEST(Gpipe, ABatchHasNoWindow) {
  Stage root(chain(0, 2, Schedule::kGpipe, 1));
  for (std::uint32_t part = 0; part < 3; ++part) root.offer(part_of(0, part, 3));
  root.offer(part_of(1, 0, 1));
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1", "F2"));
}

TEST(Gpipe, TheNextBatchWaitsForRoomInTheWindowWhereNoUpdateHoldsItUp) {
  Stage root(chain(0, 2, Schedule::kGpipe, 2));
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    for (std::uint32_t part = 0; part < 3; ++part) root.offer(part_of(batch, part, 3, batch == 1));
  }
  EXPECT_THAT(do_all(root), ElementsAre("F0", "F1", "F2"));
  ASSERT_TRUE(root.on_backward(1, 0).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B0"));
  ASSERT_TRUE(root.on_backward(1, 1).ok());
  EXPECT_THAT(do_all(root), ElementsAre("B1", "F3", "F4", "F5"));
}

TEST(Gpipe, AllForwardsOfABatchComeBeforeItsBackwards) {
  Stage leaf(chain(1, 2, Schedule::kGpipe));
  PassHead first = head(0, false);
  first.parts = 2;
  PassHead second = head(1);
  second.parts = 2;
  second.part = 1;
  ASSERT_TRUE(leaf.on_forward(0, first).ok());
  EXPECT_THAT(do_all(leaf), ElementsAre("F0"));
  ASSERT_TRUE(leaf.on_forward(0, second).ok());
  EXPECT_THAT(do_all(leaf), ElementsAre("F1", "B0", "B1", "U0"));
}

// -- tied weights

TEST(TiedWeights, GradientsComePassByPassUnlessTheScheduleIsAsync) {
  EXPECT_FALSE(Stage(chain(0, 2, Schedule::kAsync)).ties_pass_by_pass());
  EXPECT_TRUE(Stage(chain(0, 2, Schedule::kSync)).ties_pass_by_pass());
  EXPECT_TRUE(Stage(chain(0, 2, Schedule::kGpipe)).ties_pass_by_pass());
}

TEST(TiedWeights, InSyncABackwardWaitsForTheirGradients) {
  Stage stage(keeper(Schedule::kSync));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "U0"));
}

TEST(TiedWeights, TheirGradientsMayComeBeforeTheForward) {
  Stage stage(keeper(Schedule::kSync));
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  EXPECT_THAT(do_all(stage), IsEmpty());
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0", "U0"));
}

TEST(TiedWeights, InAsyncTheUpdateWaitsForTheirGradientsAndBackwardsWaitForTheUpdate) {
  Stage stage(keeper(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  ASSERT_TRUE(stage.on_backward(2, 1).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0"));
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("U0", "B1"));
}

TEST(TiedWeights, InAsyncForwardsGoOnWhileTheUpdateWaits) {
  Stage stage(keeper(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F1"));
}

TEST(TiedWeights, AForwardWaitsForTheUpdatesThatItAsksFor) {
  Stage stage(keeper(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1, true, 1)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("B0"));
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("U0", "F1"));
}

TEST(TiedWeights, AForwardWaitsForTheirValuesAfterTheUpdatesThatItAsksFor) {
  Stage stage(user(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(1, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(1, head(1, true, 1)).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("F0", "B0", "U0"));
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("V1/1", "F1", "B1", "U1"));
}

TEST(TiedWeights, TheirValuesAreAdoptedBeforeAllElse) {
  Stage stage(user(Schedule::kAsync));
  ASSERT_TRUE(stage.on_forward(1, head(0, false)).ok());
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  ASSERT_TRUE(stage.on_tied_values(1, 2).ok());
  EXPECT_THAT(do_all(stage), ElementsAre("V1/1", "V2/1", "F0", "B0"));
}

TEST(TiedWeights, AStageWithValuesToAdoptIsNotIdle) {
  Stage stage(user(Schedule::kAsync));
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  EXPECT_FALSE(stage.idle());
  do_all(stage);
  EXPECT_TRUE(stage.idle());
}

}  // namespace
}  // namespace ravnest::stage::testing
