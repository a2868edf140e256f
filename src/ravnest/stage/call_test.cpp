#include "ravnest/stage/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::stage {
namespace {

using testing::ElementsAre;

TEST(Call, IsOpenWhenEveryStageIsReady) {
  Call root(0, 3);
  root.begin("train");
  EXPECT_THAT(root.missing(), ElementsAre(1, 2));
  EXPECT_TRUE(root.on_ready(2, "train").ok());
  EXPECT_FALSE(root.open());
  EXPECT_TRUE(root.on_ready(1, "evaluate").ok());
  EXPECT_TRUE(root.open());
  EXPECT_THAT(root.words(), ElementsAre("train", "evaluate", "train"));
}

TEST(Call, OthersMayBeReadyBeforeTheRoot) {
  Call root(0, 2);
  EXPECT_TRUE(root.on_ready(1, "").ok());
  EXPECT_FALSE(root.open());
  root.begin("");
  EXPECT_TRUE(root.open());
}

TEST(Call, IsClosedOnceAllGaveAccount) {
  Call root(0, 2);
  root.begin("");
  ASSERT_TRUE(root.on_ready(1, "").ok());
  root.give_account("a");
  EXPECT_FALSE(root.all_accounted());
  EXPECT_TRUE(root.on_account(1, "b").ok());
  EXPECT_TRUE(root.all_accounted());
  EXPECT_THAT(root.accounts(), ElementsAre("a", "b"));
  root.close("well");
  EXPECT_EQ(root.closing(), "well");
}

TEST(Call, TheNextOneStartsFromNothing) {
  Call root(0, 2);
  for (int call = 0; call < 3; ++call) {
    root.begin("");
    EXPECT_FALSE(root.closing());
    EXPECT_THAT(root.missing(), ElementsAre(1));
    ASSERT_TRUE(root.on_ready(1, "").ok());
    root.give_account("");
    EXPECT_FALSE(root.all_accounted());
    ASSERT_TRUE(root.on_account(1, "").ok());
    root.close("");
  }
}

TEST(Call, OneStageAloneIsReadyAtOnce) {
  Call alone(0, 1);
  alone.begin("");
  EXPECT_TRUE(alone.open());
  alone.give_account("");
  EXPECT_TRUE(alone.all_accounted());
}

TEST(Call, WhatDoesNotFitIsRefused) {
  Call root(0, 3);
  EXPECT_FALSE(root.on_account(1, "").ok()) << "no call is under way";
  root.begin("");
  ASSERT_TRUE(root.on_ready(1, "").ok());
  EXPECT_FALSE(root.on_ready(1, "").ok()) << "twice";
  EXPECT_FALSE(root.on_account(1, "").ok()) << "not open";
  ASSERT_TRUE(root.on_ready(2, "").ok());
  ASSERT_TRUE(root.on_account(1, "").ok());
  EXPECT_FALSE(root.on_account(1, "").ok()) << "twice";
  EXPECT_FALSE(root.on_closed("").ok()) << "the root closes by itself";

  Call other(1, 3);
  other.begin("");
  EXPECT_FALSE(other.on_ready(2, "").ok()) << "not the root";
  EXPECT_FALSE(other.on_closed("").ok()) << "not over yet";
  other.give_account("");
  EXPECT_TRUE(other.on_closed("").ok());
  EXPECT_FALSE(other.on_closed("").ok()) << "twice";
}

}  // namespace
}  // namespace ravnest::stage
