#include "ravnest/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ravnest {
namespace {

TEST(Text, PartsOfAnyPrintableTypeAreConcatenatedInOrder) {
  EXPECT_EQ(text("stage ", 3, " of ", std::string("five"), ' ', 2.5, std::string_view("!")), "stage 3 of five 2.5!");
}

TEST(Text, NoPartsGiveAnEmptyString) { EXPECT_EQ(text(), ""); }

TEST(Join, SeparatorStandsOnlyBetweenItems) {
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, "/"), "a/b");
}

TEST(Join, EmptyRangeGivesAnEmptyStringAndOneItemStandsAlone) {
  EXPECT_EQ(join(std::vector<int>{}), "");
  EXPECT_EQ(join(std::vector<int>{7}, " and "), "7");
}

}  // namespace
}  // namespace ravnest
