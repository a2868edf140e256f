#include "ravnest/base/check.h"

#include <gtest/gtest.h>

namespace ravnest {
namespace {

TEST(Check, WhatHoldsGoesOnAndItsPartsAreNotLookedAt) {
  int looked = 0;
  const auto part = [&] { return ++looked; };
  RAVNEST_CHECK(2 > 1, "part ", part());
  EXPECT_EQ(looked, 0);
}

TEST(CheckDeathTest, WhatDoesNotHoldEndsTheProcessWithPlaceConditionAndParts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int sent = 3;
  const int acknowledged = 4;
  EXPECT_DEATH(RAVNEST_CHECK(acknowledged <= sent, acknowledged, " of ", sent, " messages are acknowledged"),
               "check_test\\.cpp:[0-9]+: this is a defect of ravnest: 4 of 3 messages are acknowledged "
               "\\(acknowledged <= sent does not hold\\)\n$");
}

TEST(CheckDeathTest, PartsAreNotNeeded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RAVNEST_CHECK(1 > 2), "this is a defect of ravnest: \\(1 > 2 does not hold\\)\n$");
}

// The branch of an `if` without braces, with an `else` that stays with that `if`.
TEST(CheckDeathTest, IsOneStatement) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool checked : {true, false}) {
    if (checked)
      RAVNEST_CHECK(checked);
    else
      EXPECT_DEATH(RAVNEST_CHECK(checked), "checked does not hold");
  }
}

}  // namespace
}  // namespace ravnest
