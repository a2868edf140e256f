#include "ravnest/report/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace ravnest::report {
namespace {

ProgressFacts sample() {
  return {.epoch = 3,
          .epochs = 10,
          .batch = 8,
          .batches = 17,
          .loss = 0.0312,
          .accuracy = 94.58,
          .samples_per_s = 14'200,
          .seconds_left = 12};
}

TEST(BarLine, HasAllThatIsKnownWhereThereIsRoom) {
  EXPECT_EQ(bar_line(sample(), 200),
            "epoch 3/10 [#########-----------]  47 %  loss 0.0312  accuracy 94.58 %  14.2k samples/s  12 s left");
}

TEST(BarLine, FitsAnOrdinaryTerminalWithShorterWordsAndABar) {
  EXPECT_EQ(bar_line(sample(), 79), "epoch 3/10 [######--------]  47 %  loss 0.0312  acc 94.58 %  14.2k/s  12 s left");
}

TEST(BarLine, IsNeverWiderThanTheTerminal) {
  ProgressFacts huge = sample();
  huge.epoch = huge.epochs = huge.batch = huge.batches = std::numeric_limits<std::uint64_t>::max();
  huge.loss = -std::numeric_limits<double>::max();
  huge.samples_per_s = std::numeric_limits<double>::max();
  huge.seconds_left = std::numeric_limits<double>::infinity();
  ProgressFacts unknown = sample();
  unknown.batches = 0;
  for (const ProgressFacts& facts : {sample(), huge, unknown, ProgressFacts()})
    for (int width = -1; width < 130; ++width)
      EXPECT_LE(static_cast<int>(bar_line(facts, width).size()), std::max(0, width)) << bar_line(facts, width);
}

TEST(BarLine, GivesUpItsPartsOneByOneAsRoomGetsShort) {
  EXPECT_EQ(bar_line(sample(), 65), "epoch 3/10  47 %  loss 0.0312  acc 94.58 %  14.2k/s  12 s left");
  EXPECT_EQ(bar_line(sample(), 60), "epoch 3/10  47 %  loss 0.0312  acc 94.58 %  12 s left");
  EXPECT_EQ(bar_line(sample(), 50), "epoch 3/10  47 %  loss 0.0312  12 s left");
  EXPECT_EQ(bar_line(sample(), 40), "epoch 3/10  47 %  loss 0.0312  12 s left");
  EXPECT_EQ(bar_line(sample(), 35), "epoch 3/10  47 %  loss 0.0312");
  EXPECT_EQ(bar_line(sample(), 20), "epoch 3/10  47 %");
  EXPECT_EQ(bar_line(sample(), 10), "epoch 3/10");
  EXPECT_EQ(bar_line(sample(), 7), "epoch 3");
  EXPECT_EQ(bar_line(sample(), 0), "");
}

TEST(BarLine, WithoutTheNumberOfBatchesCountsThem) {
  ProgressFacts facts = sample();
  facts.batches = 0;
  facts.seconds_left.reset();
  EXPECT_EQ(bar_line(facts, 100), "epoch 3/10  batch 8  loss 0.0312  accuracy 94.58 %  14.2k samples/s");
}

TEST(BarLine, IsFullOnlyWhenNothingIsLeft) {
  ProgressFacts facts{.epoch = 1, .epochs = 1, .batch = 999, .batches = 1000};
  EXPECT_EQ(bar_line(facts, 100), "epoch 1/1 [###################-]  99 %");
  facts.batch = 1000;
  EXPECT_EQ(bar_line(facts, 100), "epoch 1/1 [####################] 100 %");
  facts.batch = 1001;
  EXPECT_EQ(bar_line(facts, 100), "epoch 1/1 [####################] 100 %");
}

TEST(BarLine, BeforeTheFirstLossHasNoneAndNoRate) {
  EXPECT_EQ(bar_line({.epochs = 2, .batches = 4}, 100), "epoch 1/2 [--------------------]   0 %");
}

TEST(BarLine, ShowsLossesOfEverySize) {
  const auto line = [](double loss) { return bar_line({.epochs = 1, .batches = 0, .loss = loss}, 100); };
  EXPECT_EQ(line(-std::numeric_limits<double>::quiet_NaN()), "epoch 1/1  batch 0  loss nan");
  EXPECT_EQ(line(std::numeric_limits<double>::infinity()), "epoch 1/1  batch 0  loss inf");
  EXPECT_EQ(line(0), "epoch 1/1  batch 0  loss 0.0000");
  EXPECT_EQ(line(0.0000312), "epoch 1/1  batch 0  loss 3.12e-05");
  EXPECT_EQ(line(-2.5e7), "epoch 1/1  batch 0  loss -2.50e+07");
}

TEST(PlainLine, HasAllThatIsKnown) {
  EXPECT_EQ(plain_line(sample()),
            "epoch 3/10, batch 8 of 17: loss 0.0312, accuracy 94.58 %, 14.2k samples/s, 12 s left");
}

TEST(PlainLine, LeavesOutWhatIsNot) {
  EXPECT_EQ(plain_line({.epoch = 2}), "epoch 2, batch 0");
  EXPECT_EQ(plain_line({.epoch = 2, .epochs = 3, .batch = 5, .loss = 1}), "epoch 2/3, batch 5: loss 1.0000");
  EXPECT_EQ(plain_line({.epoch = 2, .epochs = 3, .batch = 5, .batches = 5, .loss = 1}), "epoch 2/3: loss 1.0000");
}

}  // namespace
}  // namespace ravnest::report
