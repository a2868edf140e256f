#include "ravnest/train/node/call_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::train {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kNodes = {"node_0", "node_4"};

TEST(CallMessages, ComesBackAsItWas) {
  const auto word = decode_word(encode(Word{"train", {{"schedule", "sync"}, {"seed", "42"}}}));
  ASSERT_TRUE(word.ok()) << word.status();
  EXPECT_EQ(word->call, "train");
  EXPECT_EQ(word->settings.at("seed"), "42");
  const auto task = decode_task(encode(Task{true, "a1b2", 7}));
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(std::tuple(task->save, task->run, task->epochs), std::tuple(true, "a1b2", 7u));
  for (const std::optional<double> accuracy : {std::optional<double>(), std::optional(97.25)}) {
    const auto closing = decode_closing(encode(Closing{accuracy, true}));
    ASSERT_TRUE(closing.ok()) << closing.status();
    EXPECT_EQ(closing->accuracy, accuracy);
    EXPECT_TRUE(closing->more);
  }
}

TEST(CallMessages, WhatIsNoAgreementIsCorrupt) {
  for (const char* written : {"", "[]", "{}", "{\"call\": 3, \"settings\": {}}", "{\"save\": 1}"}) {
    EXPECT_EQ(decode_word(written).status().code(), Code::kCorrupt) << written;
    EXPECT_EQ(decode_task(written).status().code(), Code::kCorrupt) << written;
    EXPECT_EQ(decode_closing(written).status().code(), Code::kCorrupt) << written;
  }
}

TEST(CallMessages, ANodeThatCouldNotSaveIsNamedWithItsReasonAndWithThoseThatCould) {
  std::vector<Account> accounts(2);
  EXPECT_EQ(sentence_of_unsaved(accounts, kNodes), "");
  accounts[1].summary.node = "node_4";
  accounts[1].summary.role = "leaf";
  accounts[1].unsaved = "cannot write x:\nNo space left on device";
  const auto read = decode_account(encode(accounts[1]));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->unsaved, "cannot write x:?No space left on device");
  EXPECT_EQ(sentence_of_unsaved({accounts[0], *read}, kNodes),
            "node_4 (stage 1) failed: cannot write x:?No space left on device; saved are the stages of node_0");
  EXPECT_EQ(sentence_of_unsaved({*read, *read}, kNodes).find("saved are"), std::string::npos);
}

TEST(CallMessages, IsThereWhereAllSayTheSame) {
  const Word word{"train", {{"seed", "1"}}};
  EXPECT_TRUE(check_alike({word, word}, kNodes).ok());
}

TEST(CallMessages, NamesTheNodesThatRunDifferentCalls) {
  const Status status = check_alike({{"train", {}}, {"evaluate", {}}}, kNodes);
  EXPECT_THAT(status.message(), HasSubstr("node_0 runs train() while node_4 runs evaluate()"));
}

TEST(CallMessages, NamesTheSettingThatDiffers) {
  const Status status = check_alike({{"train", {{"seed", "1"}}}, {"train", {{"seed", "2"}}}}, kNodes);
  EXPECT_THAT(status.message(), HasSubstr("seed is 1 on node_0 and 2 on node_4"));
  EXPECT_FALSE(check_alike({{"train", {{"seed", "1"}}}, {"train", {}}}, kNodes).ok());
}

}  // namespace
}  // namespace ravnest::train
