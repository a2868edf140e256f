#include "ravnest/train/node/call_sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::train {
namespace {

using testing::HasSubstr;
using wire::Ready;

const std::vector<std::string> kNodes = {"node_0", "node_4"};

TEST(SentenceOfUnsaved, NamesANodeThatCouldNotSaveWithItsReasonAndThoseThatCould) {
  const wire::Account saved;
  const wire::Account full{{}, "cannot write x: No space left on device"};
  EXPECT_EQ(sentence_of_unsaved({saved, saved}, kNodes), std::nullopt);
  EXPECT_EQ(sentence_of_unsaved({saved, full}, kNodes),
            "node_4 (stage 1) failed: cannot write x: No space left on device; saved are the stages of node_0");
  EXPECT_EQ(sentence_of_unsaved({full, full}, kNodes)->find("saved are"), std::string::npos);
}

TEST(SentenceOfUnsaved, IsThereWhereANodeCouldNotSaveAndSaysNotWhy) {
  EXPECT_TRUE(sentence_of_unsaved({{}, {{}, ""}}, kNodes));
}

TEST(CheckAlike, IsWellWhereAllSayTheSame) {
  const Ready ready{"train", {{"seed", "1"}, {"schedule", "sync"}}};
  EXPECT_TRUE(check_alike({ready, ready}, kNodes).ok());
  const Ready otherwise{"train", {{"schedule", "sync"}, {"seed", "1"}}};
  EXPECT_TRUE(check_alike({ready, otherwise}, kNodes).ok());
}

TEST(CheckAlike, NamesTheNodesThatRunDifferentCalls) {
  const Status status = check_alike({{"train", {}}, {"evaluate", {}}}, kNodes);
  EXPECT_THAT(status.message(), HasSubstr("node_0 runs train() while node_4 runs evaluate()"));
}

TEST(CheckAlike, NamesTheSettingThatDiffers) {
  const Status status = check_alike({{"train", {{"seed", "1"}}}, {"train", {{"seed", "2"}}}}, kNodes);
  EXPECT_THAT(status.message(), HasSubstr("seed is 1 on node_0 and 2 on node_4"));
  EXPECT_FALSE(check_alike({{"train", {{"seed", "1"}}}, {"train", {}}}, kNodes).ok());
}

}  // namespace
}  // namespace ravnest::train
