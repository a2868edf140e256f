#include "ravnest/strategy/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ravnest::strategy {
namespace {

TEST(LossScale, DoublesAfterSoManyGoodUpdatesInARow) {
  LossScale scale({.initial = 4, .growth_interval = 3});
  for (const double expected : {4, 4, 8, 8, 8, 16}) {
    scale.on_update(true);
    EXPECT_EQ(scale.scale(), expected);
  }
}

TEST(LossScale, HalvesAndCountsAnewWhereGradientsAreNotFinite) {
  LossScale scale({.initial = 65536, .growth_interval = 2});
  scale.on_update(true);
  scale.on_update(false);
  EXPECT_EQ(scale.scale(), 32768);
  EXPECT_EQ(scale.skipped(), 1U);
  scale.on_update(true);
  EXPECT_EQ(scale.scale(), 32768) << "the good update before does not count";
  scale.on_update(true);
  EXPECT_EQ(scale.scale(), 65536);
}

TEST(LossScale, StaysANumberThatGradientsSurvive) {
  LossScale scale({.initial = 1, .growth_interval = 1});
  for (int i = 0; i < 2000; ++i) scale.on_update(false);
  EXPECT_GT(static_cast<float>(scale.scale()), 0.0F);
  EXPECT_TRUE(std::isfinite(static_cast<float>(1 / scale.scale())));
  for (int i = 0; i < 2000; ++i) scale.on_update(true);
  EXPECT_TRUE(std::isfinite(static_cast<float>(scale.scale())));
}

}  // namespace
}  // namespace ravnest::strategy
