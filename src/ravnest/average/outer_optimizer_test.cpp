#include "ravnest/average/outer_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::average {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(OuterOptimizer, WithoutMomentumTheMeanIsHeld) {
  OuterOptimizer outer({}, {{1, 2}, {3}});
  EXPECT_THAT(outer.difference({{2, 2}, {5}}), ElementsAre(ElementsAre(1, 0), ElementsAre(2)));
  EXPECT_THAT(outer.take_mean_difference({{0.5, 1}, {-1}}), ElementsAre(ElementsAre(1.5, 3), ElementsAre(2)));
  EXPECT_THAT(outer.difference({{1.5, 3}, {2}}), ElementsAre(ElementsAre(0, 0), ElementsAre(0)));
}

TEST(OuterOptimizer, NesterovsMomentumCarriesOn) {
  OuterOptimizer outer({.nesterov = true, .momentum = 0.5, .rate = 2}, {{10}});
  EXPECT_THAT(outer.take_mean_difference({{1}}), ElementsAre(ElementsAre(FloatEq(10 + 2 * (1 + 0.5F * 1)))));
  EXPECT_THAT(outer.take_mean_difference({{1}}), ElementsAre(ElementsAre(FloatEq(13 + 2 * (1 + 0.5F * 1.5F)))));
}

TEST(OuterOptimizer, WhoComesInTakesWeightsAndMomentumOver) {
  const OuterOptimizerOptions options{.nesterov = true, .momentum = 0.5, .rate = 1};
  OuterOptimizer old(options, {{0}});
  old.take_mean_difference({{4}});
  OuterOptimizer newcomer(options, {{99}});
  EXPECT_THAT(newcomer.momentum(), ElementsAre(ElementsAre(0)));
  newcomer.take_mean({{7}}, old.momentum());
  old.take_mean({{7}}, old.momentum());
  EXPECT_EQ(newcomer.take_mean_difference({{1}}), old.take_mean_difference({{1}}));
}

}  // namespace
}  // namespace ravnest::average
