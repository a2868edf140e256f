#include "ravnest/report/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/text.h"

namespace ravnest::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TimePoint at(Duration since_start) { return TimePoint() + seconds(1000) + since_start; }

// What a terminal of unlimited width shows in the end: its lines, the one with the cursor last.
std::vector<std::string> shown_by_terminal(const std::string& bytes) {
  std::vector<std::string> lines(1);
  std::size_t cursor = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      cursor = 0;
    } else if (bytes[i] == '\n') {
      lines.emplace_back();
      cursor = 0;
    } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(cursor);
      i += 2;
    } else {
      if (lines.back().size() <= cursor) lines.back().resize(cursor + 1);
      lines.back()[cursor++] = bytes[i];
    }
  }
  return lines;
}

std::vector<std::string> lines_of(const std::string& written) {
  std::vector<std::string> lines;
  std::istringstream in(written);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::ptrdiff_t drawings(const std::string& bytes) { return std::count(bytes.begin(), bytes.end(), '\r'); }

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions terminal() {
    return {.columns = [this] { return columns_; }};
  }

  int columns_ = 200;
  std::ostringstream out_;
};

TEST_F(ProgressTest, BarIsDrawnAtMostTenTimesASecond) {
  Progress progress(out_, terminal());
  progress.begin(1, 1000, at({}));
  for (int i = 1; i <= 1000; ++i) progress.on_loss(1, static_cast<std::uint64_t>(i), 1, 1, at(milliseconds(i)));
  EXPECT_EQ(drawings(out_.str()), 11);  // at 0, 100, ... 1000 ms
}

TEST_F(ProgressTest, BarIsRewrittenInPlaceAndLeftWhenFinished) {
  Progress progress(out_, terminal());
  progress.begin(1, 4, at({}));
  EXPECT_THAT(shown_by_terminal(out_.str()), ElementsAre("epoch 1/1 [--------------------]   0 %"));
  progress.on_loss(1, 1, 64, 0.5, at(seconds(1)));
  EXPECT_THAT(shown_by_terminal(out_.str()),
              ElementsAre("epoch 1/1 [#####---------------]  25 %  loss 0.5000  64 samples/s"));
  progress.on_loss(1, 2, 64, 0.3, at(seconds(2)));
  EXPECT_THAT(shown_by_terminal(out_.str()),
              ElementsAre("epoch 1/1 [##########----------]  50 %  loss 0.4000  64 samples/s  2 s left"));
  progress.on_loss(1, 4, 128, 0.1, at(seconds(3)));
  progress.on_accuracy(94.58, at(seconds(3)));
  progress.finish(at(seconds(3)));
  EXPECT_THAT(shown_by_terminal(out_.str()),
              ElementsAre("epoch 1/1 [####################] 100 %  loss 0.3000  accuracy 94.58 %  85.3 samples/s", ""));
}

TEST_F(ProgressTest, BarFollowsTheWidthOfTheTerminalAndLeavesTheLastColumnFree) {
  Progress progress(out_, terminal());
  progress.begin(10, 4, at({}));
  columns_ = 17;
  progress.on_loss(1, 1, 64, 0.5, at(seconds(1)));
  EXPECT_THAT(shown_by_terminal(out_.str()), ElementsAre("epoch 1/10  25 %"));
  columns_ = 16;
  progress.on_loss(1, 2, 64, 0.5, at(seconds(2)));
  EXPECT_THAT(shown_by_terminal(out_.str()), ElementsAre("epoch 1/10"));
}

TEST_F(ProgressTest, MessageStandsAboveTheBarWhole) {
  Progress progress(out_, terminal());
  progress.above("before");
  progress.begin(1, 4, at({}));
  progress.above("node_2 is back\x1b[2J");
  progress.above("a message that is longer than the bar by quite a few letters and more");
  EXPECT_THAT(shown_by_terminal(out_.str()),
              ElementsAre("before", "node_2 is back?[2J",
                          "a message that is longer than the bar by quite a few letters and more",
                          "epoch 1/1 [--------------------]   0 %"));
  progress.finish(at({}));
  progress.above("after");
  EXPECT_THAT(shown_by_terminal(out_.str()).back(), "");
  EXPECT_THAT(shown_by_terminal(out_.str())[4], "after");
}

TEST_F(ProgressTest, UnfinishedBarIsLeftOnALineOfItsOwn) {
  {
    Progress progress(out_, terminal());
    progress.begin(1, 4, at({}));
  }
  EXPECT_THAT(shown_by_terminal(out_.str()), ElementsAre("epoch 1/1 [--------------------]   0 %", ""));
}

TEST_F(ProgressTest, WithoutATerminalEachEpochIsOneLineWithTheAccuracyOfItsValidation) {
  Progress progress(out_);
  progress.begin(2, 2, at({}));
  progress.on_loss(1, 1, 64, 0.5, at(seconds(1)));
  progress.on_loss(1, 2, 64, 0.3, at(seconds(2)));
  EXPECT_THAT(lines_of(out_.str()), IsEmpty());
  progress.on_accuracy(90, at(seconds(2)));
  progress.on_loss(2, 1, 64, 0.2, at(seconds(3)));
  progress.on_loss(2, 2, 64, 0.2, at(seconds(4)));
  progress.on_accuracy(95, at(seconds(4)));
  progress.finish(at(seconds(4)));
  EXPECT_THAT(lines_of(out_.str()), ElementsAre("epoch 1/2: loss 0.4000, accuracy 90.00 %, 64 samples/s, 2 s left",
                                                "epoch 2/2: loss 0.2000, accuracy 95.00 %, 64 samples/s, 0 s left"));
}

TEST_F(ProgressTest, WithoutValidationAnEpochsLineComesWithTheNextEpochOrTheEnd) {
  Progress progress(out_);
  progress.begin(2, 1, at({}));
  progress.on_loss(1, 1, 10, 0.5, at(seconds(1)));
  EXPECT_THAT(lines_of(out_.str()), IsEmpty());
  progress.on_loss(2, 1, 10, 0.3, at(seconds(2)));
  EXPECT_THAT(lines_of(out_.str()), ElementsAre("epoch 1/2: loss 0.5000, 10 samples/s"));
  progress.finish(at(seconds(2)));
  EXPECT_EQ(lines_of(out_.str()).back(), "epoch 2/2: loss 0.4000, 10 samples/s");
  progress.finish(at(seconds(3)));
  EXPECT_EQ(lines_of(out_.str()).size(), 2U);
}

TEST_F(ProgressTest, LongEpochHasALineEveryTenSeconds) {
  Progress progress(out_);
  progress.begin(1, 100, at({}));
  for (int i = 1; i <= 25; ++i) progress.on_loss(1, static_cast<std::uint64_t>(i), 8, 1, at(seconds(i)));
  EXPECT_THAT(lines_of(out_.str()),
              ElementsAre("epoch 1/1, batch 10 of 100: loss 1.0000, 8 samples/s, 1 min 30 s left",
                          "epoch 1/1, batch 20 of 100: loss 1.0000, 8 samples/s, 1 min 20 s left"));
  progress.above("node_2 is back");
  EXPECT_EQ(lines_of(out_.str()).back(), "node_2 is back");
}

TEST_F(ProgressTest, NumberOfBatchesIsLearntFromTheFirstEpoch) {
  Progress progress(out_);
  progress.begin(3, 0, at({}));
  for (std::uint64_t i = 1; i <= 4; ++i) progress.on_loss(1, i, 8, 1, at(seconds(i)));
  EXPECT_EQ(progress.facts().batches, 0U);
  EXPECT_EQ(progress.facts().seconds_left, std::nullopt);
  progress.on_loss(2, 1, 8, 1, at(seconds(5)));
  EXPECT_EQ(progress.facts().batches, 4U);
  EXPECT_EQ(progress.facts().seconds_left, 7);
}

TEST_F(ProgressTest, EpochLongerThanItWasSaidToBeIsOfUnknownLength) {
  Progress progress(out_);
  progress.begin(2, 2, at({}));
  for (std::uint64_t i = 1; i <= 3; ++i) progress.on_loss(1, i, 8, 1, at(seconds(i)));
  EXPECT_EQ(progress.facts().batches, 0U);
  progress.on_loss(2, 1, 8, 1, at(seconds(4)));
  EXPECT_EQ(progress.facts().batches, 3U);
}

TEST_F(ProgressTest, RateAndLossAreThoseOfTheLastSeconds) {
  Progress progress(out_);
  progress.begin(1, 0, at({}));
  std::uint64_t batch = 0;
  for (int i = 1; i <= 100; ++i) progress.on_loss(1, ++batch, 1, 8, at(milliseconds(100 * i)));
  EXPECT_NEAR(progress.facts().samples_per_s, 10, 0.01);
  for (int i = 1; i <= 60; ++i) progress.on_loss(1, ++batch, 3, 2, at(seconds(10) + milliseconds(100 * i)));
  EXPECT_NEAR(progress.facts().samples_per_s, 30, 0.01);
  EXPECT_EQ(progress.facts().loss, 2);
}

TEST_F(ProgressTest, NanLossIsShownAndLeavesTheMeanWhenItIsOld) {
  Progress progress(out_);
  progress.begin(1, 0, at({}));
  progress.on_loss(1, 1, 1, std::numeric_limits<double>::quiet_NaN(), at(seconds(1)));
  progress.on_loss(1, 2, 1, 2, at(seconds(2)));
  EXPECT_TRUE(std::isnan(progress.facts().loss.value()));
  progress.on_loss(1, 3, 1, 3, at(seconds(7)));
  EXPECT_EQ(progress.facts().loss, 2.5);
}

TEST_F(ProgressTest, SlowBatchesHaveARateToo) {
  Progress progress(out_);
  progress.begin(1, 0, at({}));
  progress.on_loss(1, 1, 60, 1, at(seconds(30)));
  EXPECT_EQ(progress.facts().samples_per_s, 2);
  progress.on_loss(1, 2, 60, 3, at(seconds(50)));
  EXPECT_EQ(progress.facts().samples_per_s, 3);
  EXPECT_EQ(progress.facts().loss, 3);
}

TEST_F(ProgressTest, ValidationDoesNotLowerTheRateOfTraining) {
  Progress progress(out_);
  progress.begin(2, 1, at({}));
  progress.on_loss(1, 1, 10, 1, at(seconds(1)));
  progress.on_accuracy(50, at(seconds(61)));
  EXPECT_EQ(progress.facts().samples_per_s, 10);
  EXPECT_EQ(progress.facts().loss, 1);
  progress.on_loss(2, 1, 10, 1, at(seconds(62)));
  EXPECT_EQ(progress.facts().samples_per_s, 10);
}

TEST_F(ProgressTest, NoSamplesAndNoTimeGiveNoRateAndNoTimeLeft) {
  Progress progress(out_);
  progress.begin(1, 3, at({}));
  progress.on_loss(1, 1, 64, 1, at({}));
  progress.on_loss(1, 2, 64, 1, at({}));
  EXPECT_EQ(progress.facts().samples_per_s, 0);
  EXPECT_EQ(progress.facts().seconds_left, std::nullopt);
  progress.begin(1, 3, at({}));
  progress.on_loss(1, 1, 0, 1, at(seconds(1)));
  progress.finish(at(seconds(1)));
  EXPECT_THAT(lines_of(out_.str()), ElementsAre("epoch 1/1, batch 1 of 3: loss 1.0000"));
}

TEST_F(ProgressTest, SecondTrainingForgetsTheFirst) {
  Progress progress(out_);
  progress.begin(1, 1, at({}));
  progress.on_loss(1, 1, 64, 1, at(seconds(1)));
  progress.on_accuracy(90, at(seconds(1)));
  progress.finish(at(seconds(1)));
  progress.begin(5, 2, at(seconds(2)));
  EXPECT_EQ(progress.facts(), (ProgressFacts{.epoch = 1, .epochs = 5, .batch = 0, .batches = 2}));
}

TEST_F(ProgressTest, MessagesFromOtherThreadsTearNothing) {
  Progress progress(out_, terminal());
  progress.begin(1, 200, at({}));
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) progress.above("a message");
  });
  for (int i = 1; i <= 200; ++i) progress.on_loss(1, static_cast<std::uint64_t>(i), 1, 1, at(seconds(i)));
  other.join();
  progress.finish(at(seconds(201)));
  const auto lines = shown_by_terminal(out_.str());
  ASSERT_EQ(lines.size(), 202U);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(lines[i], "a message");
}

TEST(TerminalColumns, AreAskedOfTheTerminalEachTime) {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(master.is_open());
  ASSERT_EQ(::grantpt(master.number()), 0);
  ASSERT_EQ(::unlockpt(master.number()), 0);
  const Descriptor terminal(::open(::ptsname(master.number()), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal.is_open());
  const auto columns = terminal_columns(terminal.number());
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns(), 80);
  const winsize size{.ws_row = 24, .ws_col = 47, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(master.number(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(columns(), 47);
}

TEST(TerminalColumns, AreNotThereForAFile) {
  const Descriptor file(::open("/dev/null", O_RDWR));
  EXPECT_FALSE(terminal_columns(file.number()));
}

}  // namespace
}  // namespace ravnest::report
