#include "ravnest/pipeline/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::pipeline {
namespace {

TEST(Schedule, NamesAreReadBack) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    EXPECT_EQ(*parse_schedule(name(schedule)), schedule);
  }
  EXPECT_THAT(parse_schedule("1f1b").status().message(), testing::HasSubstr("async, sync and gpipe"));
}

StageOptions chain(int index, int count, Schedule schedule = Schedule::kAsync, int window = 0) {
  StageOptions options;
  options.index = index;
  options.count = count;
  options.schedule = schedule;
  options.window = window;
  if (index > 0) options.train.producers = {index - 1};
  if (index + 1 < count) options.train.consumers = {index + 1};
  options.evaluate = options.train;
  return options;
}

wire::PassHead head(std::uint64_t pass, bool update = true) {
  return {.pass = pass, .step = pass, .batch = pass, .update = update};
}

// All that there is to do; what was done, in order.
std::vector<WorkKind> do_all(Stage& stage) {
  std::vector<WorkKind> kinds;
  while (const auto work = stage.next()) {
    stage.done(*work);
    kinds.push_back(work->kind);
  }
  return kinds;
}

TEST(Over, MayComeAfterPassesOfTheNextCall) {
  Stage stage(chain(1, 2));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  ASSERT_TRUE(stage.on_forward(0, head(1)).ok());
  do_all(stage);
  EXPECT_TRUE(stage.on_over(1).ok());
  EXPECT_EQ(stage.calls_over(), 1U);
}

TEST(Over, OfPassesThatWereNotComputedHereIsInvalid) {
  Stage stage(chain(1, 2));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  EXPECT_EQ(stage.on_over(1).code(), Code::kInvalid);
  do_all(stage);
  EXPECT_TRUE(stage.on_over(1).ok());
}

TEST(Over, DoesNotGoBack) {
  Stage stage(chain(1, 2));
  ASSERT_TRUE(stage.on_forward(0, head(0)).ok());
  do_all(stage);
  ASSERT_TRUE(stage.on_over(1).ok());
  EXPECT_EQ(stage.on_over(0).code(), Code::kInvalid);
}

TEST(TiedGradients, OfAPassThatDoesNotTrainAreInvalid) {
  StageOptions options = chain(1, 3, Schedule::kSync);
  options.tied_users = {2};
  Stage stage(options);
  wire::PassHead validation = head(0, false);
  validation.kind = wire::PassKind::kValidate;
  ASSERT_TRUE(stage.on_forward(0, validation).ok());
  EXPECT_EQ(stage.on_tied_gradients(2, 0).code(), Code::kInvalid);
  ASSERT_TRUE(stage.on_tied_gradients(2, 1).ok());
  validation.pass = 1;
  EXPECT_EQ(stage.on_forward(0, validation).code(), Code::kInvalid);
}

TEST(TiedGradients, BeyondTheWindowAreInvalid) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    StageOptions options = chain(1, 3, schedule, 2);
    options.tied_users = {2};
    Stage stage(options);
    EXPECT_TRUE(stage.on_tied_gradients(2, 1).ok());
    EXPECT_EQ(stage.on_tied_gradients(2, 2).code(), Code::kInvalid);
  }
}

}  // namespace
}  // namespace ravnest::pipeline
