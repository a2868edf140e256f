#include "ravnest/train/node/round_checkpoints.h"

#include <gtest/gtest.h>

namespace ravnest::train {
namespace {

using Entry = RoundCheckpoints::Entry;
using average::Capture;
using checkpoint::DataPosition;
using std::chrono::seconds;

constexpr TimePoint kBegin{};

// Behind so many batches of two passes, with an update each; four batches make an epoch.
DataPosition behind(std::uint64_t batches) {
  return {.epoch = batches / 4, .index = batches % 4, .trained = batches, .passes = 2 * batches, .updates = batches};
}

class RoundCheckpointsTest : public ::testing::Test {
 protected:
  static void begin(RoundCheckpoints& own, std::uint64_t batches = 0, std::uint64_t number = 0) {
    own.begin(behind(batches), number, kBegin);
    for (std::uint64_t i = 1; i <= 12; ++i) own.fed(behind(batches + i));
  }
};

TEST_F(RoundCheckpointsTest, BeforeTheRunBeginsThereAreNone) {
  RoundCheckpoints own({checkpoint::Interval::Unit::kUpdates, 1});
  EXPECT_EQ(own.at(Entry::kAveragingPass, 0, false, kBegin), Capture());
}

TEST_F(RoundCheckpointsTest, OneIsDueByUpdatesWhereTheRoundIsThoughMoreIsFed) {
  RoundCheckpoints own({checkpoint::Interval::Unit::kUpdates, 3});
  begin(own);
  EXPECT_EQ(own.at(Entry::kAveragingPass, 4, false, kBegin), (Capture{2, false}));
  EXPECT_EQ(own.entered(), behind(2));
  EXPECT_EQ(own.at(Entry::kAveragingPass, 8, false, kBegin), (Capture{4, true}));
  own.made(4, own.entered(), kBegin);
  EXPECT_EQ(own.at(Entry::kAveragingPass, 10, false, kBegin), (Capture{5, false}));
}

TEST_F(RoundCheckpointsTest, OneIsDueByTimeAndByEpochs) {
  RoundCheckpoints timed({checkpoint::Interval::Unit::kSeconds, 10});
  begin(timed);
  EXPECT_FALSE(timed.at(Entry::kAveragingPass, 4, false, kBegin + seconds(9)).due);
  EXPECT_TRUE(timed.at(Entry::kAveragingPass, 4, false, kBegin + seconds(10)).due);
  RoundCheckpoints by_epoch({checkpoint::Interval::Unit::kEpochs, 1});
  begin(by_epoch);
  EXPECT_FALSE(by_epoch.at(Entry::kAveragingPass, 6, false, kBegin).due);
  EXPECT_TRUE(by_epoch.at(Entry::kAveragingPass, 10, false, kBegin).due);
}

TEST_F(RoundCheckpointsTest, InTheMiddleOfTrainingOneIsWantedAndCanNotBeMade) {
  RoundCheckpoints own({checkpoint::Interval::Unit::kUpdates, 3});
  begin(own);
  EXPECT_EQ(own.at(Entry::kMarkedPass, 6, false, kBegin), (Capture{0, true}));
}

TEST_F(RoundCheckpointsTest, NoneIsWantedWhileOneIsWrittenButAtTheEnd) {
  RoundCheckpoints own({checkpoint::Interval::Unit::kUpdates, 3});
  begin(own);
  EXPECT_FALSE(own.at(Entry::kAveragingPass, 6, true, kBegin).due);
  EXPECT_TRUE(own.at(Entry::kLast, 24, true, kBegin).due);
  own.made(12, behind(12), kBegin);
  EXPECT_FALSE(own.at(Entry::kLast, 24, false, kBegin).due) << "nothing was trained since";
}

TEST_F(RoundCheckpointsTest, NumbersGoOnWhereOthersHaveMadeMoreUpdates) {
  RoundCheckpoints own({checkpoint::Interval::Unit::kUpdates, 3});
  begin(own, 8, 20);
  EXPECT_EQ(own.at(Entry::kAveragingPass, 18, false, kBegin), (Capture{21, true}));
}

}  // namespace
}  // namespace ravnest::train
