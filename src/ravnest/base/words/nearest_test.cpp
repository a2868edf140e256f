#include "ravnest/base/words/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace ravnest {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"epochs", "batch_size", "seed", "loss", "loss_file"};

TEST(Nearest, SlipsOfTheHandAreRecognised) {
  EXPECT_EQ(nearest("epoch", kNames), "epochs");
  EXPECT_EQ(nearest("eopchs", kNames), "epochs");
  EXPECT_EQ(nearest("batchsize", kNames), "batch_size");
  EXPECT_EQ(nearest("SEED", kNames), "seed");
  EXPECT_EQ(nearest("sead", kNames), "seed");
  EXPECT_EQ(nearest("los_file", kNames), "loss_file");
}

TEST(Nearest, TheNearestOfSeveralWins) {
  EXPECT_EQ(nearest("losss", kNames), "loss");
  EXPECT_EQ(nearest("lossfile", kNames), "loss_file");
}

TEST(Nearest, WhatNobodyWouldRecogniseHasNone) {
  EXPECT_EQ(nearest("momentum", kNames), std::nullopt);
  EXPECT_EQ(nearest("xy", kNames), std::nullopt);
  EXPECT_EQ(nearest("", kNames), std::nullopt);
  EXPECT_EQ(nearest(std::string(10'000, 'e'), kNames), std::nullopt);
  EXPECT_EQ(nearest("seed", {}), std::nullopt);
}

TEST(Nearest, QuestionEndsAMessage) {
  EXPECT_EQ(did_you_mean("epoch", kNames), "; did you mean epochs?");
  EXPECT_EQ(did_you_mean("momentum", kNames), "");
}

}  // namespace
}  // namespace ravnest
