#include "ravnest/base/timeline.h"

#include <gtest/gtest.h>

#include <string>

namespace ravnest {
namespace {

std::string all_of(Timeline<std::string>& timeline) {
  std::string all;
  while (const auto next = timeline.next()) all += std::to_string(next->first) + next->second + " ";
  return all;
}

TEST(Timeline, EventsComeByTheirTimeAndThoseOfOneTimeInTheirOrder) {
  Timeline<std::string> timeline;
  timeline.put(3, "c");
  timeline.put(1, "a");
  timeline.put(3, "d");
  timeline.put(1, "b");
  EXPECT_EQ(all_of(timeline), "1a 1b 3c 3d ");
}

TEST(Timeline, PlacesOfEventsThatAreOverAreUsedAgain) {
  Timeline<std::string> timeline;
  timeline.put(1, "a");
  timeline.put(2, "b");
  EXPECT_EQ(timeline.next()->second, "a");
  timeline.put(2, "c");
  timeline.put(1, "d");
  EXPECT_EQ(all_of(timeline), "1d 2b 2c ");
  EXPECT_FALSE(timeline.next().has_value());
}

}  // namespace
}  // namespace ravnest
