#include "complete_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::cli {
namespace {

using ::testing::StartsWith;

constexpr auto kNowhere = std::nullopt;

// What a run goes on from, by the flag, train.toml and the variable.
std::optional<std::string> resumes(const std::optional<std::string>& flag, const std::optional<std::string>& file,
                                   const std::optional<std::string>& variable) {
  train::TrainConfig config;
  config.checkpoint = train::CheckpointConfig{.folder = "checkpoints"};
  config.checkpoint->resume = file;
  object_store::Environment environment;
  if (variable) environment["RAVNEST_RESUME"] = *variable;
  EXPECT_TRUE(complete_checkpoint(flag, environment, config).ok());
  EXPECT_EQ(config.checkpoint->environment, environment);
  return config.checkpoint->resume;
}

TEST(CompleteCheckpoint, TheFlagCountsBeforeTheFileAndTheVariableAfterBoth) {
  EXPECT_EQ(resumes("40", "best", "120"), "40");
  EXPECT_EQ(resumes(kNowhere, "best", "120"), "best");
  EXPECT_EQ(resumes(kNowhere, kNowhere, "120"), "120");
  EXPECT_EQ(resumes(kNowhere, kNowhere, kNowhere), kNowhere);
}

TEST(CompleteCheckpoint, WhoSaysNoIsNotAskedAgain) {
  EXPECT_EQ(resumes("false", "best", "1"), "");
  EXPECT_EQ(resumes(kNowhere, "", "1"), "");
  EXPECT_EQ(resumes(kNowhere, kNowhere, "0"), "");
}

TEST(CompleteCheckpoint, WithoutCheckpointsWhoWantsToGoOnIsNamed) {
  const auto said = [](const std::optional<std::string>& flag, const std::string& variable) {
    train::TrainConfig config;
    return complete_checkpoint(flag, {{"RAVNEST_RESUME", variable}}, config).message();
  };
  EXPECT_THAT(said("newest", ""), StartsWith("--resume needs checkpoints to go on from"));
  EXPECT_THAT(said(kNowhere, "1"), StartsWith("RAVNEST_RESUME needs checkpoints to go on from"));
  EXPECT_EQ(said(kNowhere, "0"), "");
  EXPECT_EQ(said("false", "1"), "");
}

}  // namespace
}  // namespace ravnest::cli
