#include "ravnest/checkpoint/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Manifest of_update_120(std::uint64_t index) {
  Manifest manifest;
  manifest.updates = 120;
  manifest.position.epoch = 2;
  manifest.position.index = index;
  manifest.position.trained = 240 + index;
  manifest.settings = {{"batch_size", "64"}, {"epochs", "3"}, {"schedule", "sync"}, {"update_frequency", "2"}};
  return manifest;
}

TEST(ChangedSettings, AreNamedWithBothValues) {
  const auto changes = changed_settings(
      of_update_120(17), {{"batch_size", "64"}, {"epochs", "4"}, {"schedule", "gpipe"}, {"update_frequency", "2"}});
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_THAT(*changes, ElementsAre("epochs from 3 to 4", "schedule from sync to gpipe"));
}

TEST(ChangedSettings, WhatOnlyOneOfTheTwoHasIsNotCompared) {
  const auto changes = changed_settings(of_update_120(17), {{"epochs", "3"}, {"precision", "bf16"}});
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_THAT(*changes, IsEmpty());
}

TEST(ChangedSettings, WhichDecideWhatABatchHasMayChangeBetweenEpochsOnly) {
  const auto refused = changed_settings(of_update_120(17), {{"batch_size", "32"}});
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("batch_size was 64 in the checkpoint of update 120 and is 32 here"),
                    HasSubstr("17 batches of epoch 3 are trained on")));
  const auto taken = changed_settings(of_update_120(0), {{"batch_size", "32"}});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(*taken, ElementsAre("batch_size from 64 to 32"));
}

TEST(ChangedSettings, TheBatchSizeMayChangeWhereThePositionCountsSamples) {
  Manifest from = of_update_120(17);
  from.position.samples = 17 * 64;
  from.settings["batches_per_epoch"] = "20";
  EXPECT_TRUE(changed_settings(from, {{"batch_size", "32"}, {"batches_per_epoch", "40"}}).ok());
  EXPECT_THAT(changed_settings(from, {{"batch_size", "64"}, {"batches_per_epoch", "40"}}).status().message(),
              HasSubstr("batches_per_epoch was 20 in the checkpoint of update 120 and is 40 here"));
}

TEST(ChangedSettings, HowDataAreSharedOutMayChangeBetweenRunsThatGoThroughThemTogether) {
  Manifest from = of_update_120(17);
  from.settings = {{"shard", "true"}, {"clusters", "2"}, {"batches_per_epoch", "20"}};
  for (const std::map<std::string, std::string>& together : std::initializer_list<std::map<std::string, std::string>>{
           {{"shard", "false"}, {"ranks", "2"}, {"batches_per_epoch", "20"}},
           {{"shard", "false"}, {"clusters", "1"}, {"batches_per_epoch", "40"}},
           {{"shard", "true"}, {"clusters", "3"}, {"batches_per_epoch", "13"}}})
    EXPECT_TRUE(changed_settings(from, together).ok()) << changed_settings(from, together).status();
  EXPECT_THAT(changed_settings(from, {{"shard", "false"}, {"clusters", "2"}}).status().message(),
              HasSubstr("shard was true in the checkpoint of update 120 and is false here"));
}

TEST(ChangedSettings, WhileGradientsWaitTheirNumberMayNotChange) {
  EXPECT_THAT(changed_settings(of_update_120(1), {{"update_frequency", "4"}}).status().message(),
              HasSubstr("may not change while gradients wait for their update"));
  EXPECT_TRUE(changed_settings(of_update_120(2), {{"update_frequency", "4"}}).ok());
}

}  // namespace
}  // namespace ravnest::checkpoint
