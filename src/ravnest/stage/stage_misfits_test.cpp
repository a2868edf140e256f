// Messages that do not fit.
#include "ravnest/stage/testing/stage.h"

namespace ravnest::stage::testing {
namespace {

using wire::PassHead;

TEST(Misfit, AForwardFromAStageThatSendsNoneHere) {
  Stage stage(chain(1, 3));
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(2, head(0)); }, "came from stage 2, which sends none here");
}

TEST(Misfit, AForwardToTheRoot) {
  Stage root(chain(0, 3));
  expect_refused(
      root, [](Stage& s) { return s.on_forward(1, head(0)); }, "sends none here");
}

TEST(Misfit, ASecondForwardThatWaits) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(0, head(0)); }, "a second forward of pass 0");
}

TEST(Misfit, ASecondForwardOfAPassThatWasComputed) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(0, head(0)); }, "a second forward of pass 0");
}

TEST(Misfit, AForwardBeyondTheWindow) {
  Stage stage(chain(1, 3, Schedule::kAsync, 2));
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(0, head(2)); }, "though the window is 2");
}

TEST(Misfit, AForwardOfABatchBeyondTheWindow) {
  Stage stage(chain(1, 3, Schedule::kGpipe, 2));
  PassHead part = head(4);
  part.parts = 4;
  part.part = 3;
  EXPECT_TRUE(stage.on_forward(0, part).ok());
  part.part = 2;
  part.pass = 5;
  expect_refused(
      stage, [&](Stage& s) { return s.on_forward(0, part); }, "though the window is 2");
}

TEST(Misfit, AForwardOfAPartThatItsBatchDoesNotHave) {
  Stage stage(chain(1, 3));
  PassHead strange = head(0);
  strange.part = 1;
  expect_refused(
      stage, [&](Stage& s) { return s.on_forward(0, strange); }, "part 1 of 1");
  strange.part = 0;
  strange.parts = 0;
  expect_refused(
      stage, [&](Stage& s) { return s.on_forward(0, strange); }, "part 0 of 0");
}

TEST(Misfit, AForwardThatContradictsAnother) {
  StageOptions options = chain(2, 3);
  options.train.producers = {0, 1};
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(0, head(0, true)).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(1, head(0, false)); }, "something else of pass 0");
}

TEST(Misfit, AnAnswerToAPassThatIsNotKnown) {
  Stage root(chain(0, 2));
  expect_refused(
      root, [](Stage& s) { return s.on_backward(1, 0); }, "does not wait for one");
}

TEST(Misfit, AnAnswerToAPassThatWasNotSentYet) {
  Stage stage(chain(1, 3));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_backward(2, 0); }, "does not wait for one");
}

TEST(Misfit, AnAnswerFromAStageThatWasSentNothing) {
  Stage stage(chain(1, 4));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  expect_refused(
      stage, [](Stage& s) { return s.on_backward(3, 0); }, "which was sent nothing");
}

TEST(Misfit, ASecondAnswer) {
  StageOptions options = chain(1, 4);
  options.train.consumers = {2, 3};
  Stage stage(options);
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_backward(2, 0).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_backward(2, 0); }, "a second answer to pass 0");
}

TEST(Misfit, TiedGradientsFromAStageThatUsesNoWeightsOfThisOne) {
  Stage stage(keeper(Schedule::kSync));
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_gradients(0, 0); }, "where none are waited for");
}

TEST(Misfit, TiedGradientsThatCameBefore) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    Stage stage(keeper(schedule));
    ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
    expect_refused(
        stage, [](Stage& s) { return s.on_tied_gradients(2, 0); }, "came twice from stage 2");
  }
}

TEST(Misfit, TiedGradientsOfWhatIsDone) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    Stage stage(keeper(schedule));
    ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
    ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
    do_all(stage);
    ASSERT_TRUE(stage.on_backward(2, 0).ok());
    do_all(stage);
    expect_refused(
        stage, [](Stage& s) { return s.on_tied_gradients(2, 0); }, "where none are waited for");
  }
}

TEST(Misfit, TiedGradientsOfAPassThatDoesNotTrain) {
  Stage stage(keeper(Schedule::kSync));
  ASSERT_TRUE(stage.on_forward(0, evaluation(0)).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_gradients(2, 0); }, "where none are waited for");
}

TEST(Misfit, AForwardThatDoesNotTrainOfAPassWithTiedGradients) {
  Stage stage(keeper(Schedule::kSync));
  ASSERT_TRUE(stage.on_tied_gradients(2, 0).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_forward(0, evaluation(0)); }, "gradients of it have come");
}

TEST(Misfit, TiedGradientsBeyondTheWindow) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    Stage stage(keeper(schedule));
    EXPECT_TRUE(stage.on_tied_gradients(2, 3).ok());
    expect_refused(
        stage, [](Stage& s) { return s.on_tied_gradients(2, 4); }, "where none are waited for");
  }
}

TEST(Misfit, TiedValuesFromAStageThatKeepsNone) {
  Stage stage(user(Schedule::kAsync));
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_values(0, 1); }, "keeps none that are used here");
}

TEST(Misfit, TiedValuesOutOfOrder) {
  Stage stage(user(Schedule::kAsync));
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_values(1, 2); }, "the last were after 0");
  ASSERT_TRUE(stage.on_tied_values(1, 1).ok());
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_values(1, 1); }, "the last were after 1");
  do_all(stage);
  expect_refused(
      stage, [](Stage& s) { return s.on_tied_values(1, 1); }, "the last were after 1");
}

}  // namespace
}  // namespace ravnest::stage::testing
