#include "ravnest/base/words/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace ravnest {
namespace {

TEST(Units, QuantityHasThreeDigitsAndAPrefix) {
  EXPECT_EQ(quantity(4'200'000, "B"), "4.20 MB");
  EXPECT_EQ(quantity(17'000, ""), "17.0 k");
  EXPECT_EQ(quantity(17, ""), "17");
  EXPECT_EQ(quantity(999.6, "B"), "1.00 kB");
}

TEST(Units, CompactCountHasNoSpace) {
  EXPECT_EQ(compact(14'200), "14.2k");
  EXPECT_EQ(compact(812), "812");
  EXPECT_EQ(compact(0.25), "0.25");
  EXPECT_EQ(compact(0), "0");
}

TEST(Units, MegabytesAreRoundedUp) { EXPECT_EQ(megabytes(911'000'001), "912 MB"); }

TEST(Units, DurationPicksItsUnit) {
  EXPECT_EQ(duration(1.25), "1.25 s");
  EXPECT_EQ(duration(0.0125), "12.5 ms");
  EXPECT_EQ(duration(4e-6), "4.00 us");
}

TEST(Units, ClockTimeIsInTheTwoUnitsThatMatter) {
  EXPECT_EQ(clock_time(0), "0 s");
  EXPECT_EQ(clock_time(12.4), "12 s");
  EXPECT_EQ(clock_time(59.6), "1 min 00 s");
  EXPECT_EQ(clock_time(185), "3 min 05 s");
  EXPECT_EQ(clock_time(3600), "1 h 00 min");
  EXPECT_EQ(clock_time(3725), "1 h 02 min");
  EXPECT_EQ(clock_time(47 * 3600 + 59 * 60), "47 h 59 min");
  EXPECT_EQ(clock_time(48 * 3600), "2 days 00 h");
  EXPECT_EQ(clock_time(10.4 * 24 * 3600), "10 days 10 h");
}

TEST(Units, ClockTimeOfWhatIsNoTimeIsStillText) {
  EXPECT_EQ(clock_time(-3), "0 s");
  EXPECT_EQ(clock_time(std::numeric_limits<double>::infinity()), "very long");
  EXPECT_EQ(clock_time(std::numeric_limits<double>::quiet_NaN()), "very long");
}

}  // namespace
}  // namespace ravnest
