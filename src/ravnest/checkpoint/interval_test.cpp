#include "ravnest/checkpoint/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::checkpoint {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(Interval, IsReadAsPeopleWriteIt) {
  using Unit = Interval::Unit;
  EXPECT_EQ(*parse_interval("epoch"), (Interval{Unit::kEpochs, 1}));
  EXPECT_EQ(*parse_interval("2 epochs"), (Interval{Unit::kEpochs, 2}));
  EXPECT_EQ(*parse_interval("500 updates"), (Interval{Unit::kUpdates, 500}));
  EXPECT_EQ(*parse_interval("10 min"), (Interval{Unit::kSeconds, 600}));
  EXPECT_EQ(*parse_interval("30s"), (Interval{Unit::kSeconds, 30}));
  EXPECT_EQ(*parse_interval("2 h"), (Interval{Unit::kSeconds, 7200}));
  for (const char* written : {"epoch", "2 epochs", "1 update", "500 updates", "30 s", "10 min", "2 h"})
    EXPECT_EQ(words(*parse_interval(written)), written);
}

TEST(Interval, WhatSaysNothingIsRefusedWithWhatCanBeWritten) {
  for (const char* written : {"", "0 updates", "updates 500", "10", "-1 s", "10 mins of", "99999999999999999999 s"}) {
    const auto every = parse_interval(written);
    ASSERT_FALSE(every.ok()) << written;
    EXPECT_THAT(every.status().message(), HasSubstr("write \"epoch\", \"500 updates\" or \"10 min\""));
  }
}

TEST(Due, UpdatesAreMultiplesWhereverTheRunGoesOn) {
  Due due(*parse_interval("10 updates"));
  due.begin(7, 0, TimePoint());
  EXPECT_FALSE(due.after_update(9, TimePoint()));
  EXPECT_TRUE(due.after_update(10, TimePoint()));
  due.made(10, 0, TimePoint());
  EXPECT_FALSE(due.after_update(11, TimePoint()));
  EXPECT_FALSE(due.after_epoch(5));
}

TEST(Due, TimeCountsFromTheLastOne) {
  Due due(*parse_interval("10 s"));
  due.begin(0, 0, TimePoint(seconds(100)));
  EXPECT_FALSE(due.after_update(5, TimePoint(seconds(109))));
  EXPECT_TRUE(due.after_update(6, TimePoint(seconds(110))));
  due.made(6, 0, TimePoint(seconds(110)));
  EXPECT_FALSE(due.after_update(7, TimePoint(seconds(111))));
}

TEST(Due, EpochsComeWhenTheyAreOver) {
  Due due(*parse_interval("2 epochs"));
  due.begin(0, 0, TimePoint());
  EXPECT_FALSE(due.after_epoch(1));
  EXPECT_TRUE(due.after_epoch(2));
  EXPECT_FALSE(due.after_update(1000, TimePoint(seconds(1000))));
}

}  // namespace
}  // namespace ravnest::checkpoint
