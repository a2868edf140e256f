#include "ravnest/object_store/wall_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::object_store {
namespace {

const WallTime kTime = std::chrono::system_clock::from_time_t(1440938160);

TEST(WallTime, OfIso8601HasFractionsOrNot) {
  EXPECT_EQ(parse_iso_time("2015-08-30T12:36:00Z"), kTime);
  EXPECT_EQ(parse_iso_time("2015-08-30T12:36:00.123456Z"), kTime);
  for (const char* written : {"", "soon", "2015-08-30", "2015-08-30T12:36:00", "2015-08-30T12:36:00+02:00"})
    EXPECT_EQ(parse_iso_time(written), std::nullopt) << written;
}

TEST(WallTime, OfAHeaderIsInGmt) {
  EXPECT_EQ(parse_http_time("Sun, 30 Aug 2015 12:36:00 GMT"), kTime);
  for (const char* written : {"", "now", "Sun, 30 Aug 2015 12:36:00", "Sun, 30 Aug 2015 12:36:00 GMT+1"})
    EXPECT_EQ(parse_http_time(written), std::nullopt) << written;
}

TEST(WallTime, BeyondWhatATimePointHoldsIsItsEnd) {
  EXPECT_EQ(parse_iso_time("9999-12-31T23:59:59Z"), parse_iso_time("2200-01-01T00:00:00Z"));
  EXPECT_EQ(parse_iso_time("1601-01-01T00:00:00Z"), parse_iso_time("1970-01-01T00:00:00Z"));
}

TEST(WallTime, IsWrittenInUtc) {
  EXPECT_EQ(amz_time(kTime), "20150830T123600Z");
  EXPECT_EQ(shown_time(kTime), "2015-08-30 12:36:00 UTC");
}

}  // namespace
}  // namespace ravnest::object_store
