#include "ravnest/report/rank_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::report {
namespace {

using testing::HasSubstr;
using testing::Not;

RanksSummary of(std::vector<RankSummary> ranks) {
  RanksSummary summary;
  summary.run.seconds = 10;
  summary.run.samples = 20000;
  summary.run.epochs = 4;
  summary.run.updates_per_epoch = 25;
  summary.backend = "the ring";
  summary.ranks = std::move(ranks);
  return summary;
}

RankSummary rank(const std::string& name, double computing_s, double wait_s) {
  return {name, 10, computing_s * 0.6, computing_s * 0.3, computing_s * 0.1, wait_s, 2'000'000, 3'000'000};
}

TEST(RankSummary, SaysWhatWasDoneHowAndByWhom) {
  const std::string text = summary_text(of({rank("rank_0", 9, 0.5), rank("rank_1", 9, 0.5)}));
  EXPECT_THAT(text, HasSubstr("Trained 4 epochs in 10 s: 20000 samples, 2.00k samples/s\n"));
  EXPECT_THAT(text, HasSubstr("strategy ddp, 2 ranks, by the ring, 25 updates per epoch\n"));
  EXPECT_THAT(text, HasSubstr("rank_1       90 %     54 %      27 %     9 %      5 %  2.00 MB   3.00 MB"));
}

TEST(RankSummary, SaysNothingOfBytesThatNobodyCounted) {
  RankSummary one = rank("rank_0", 5, 4);
  one.bytes_sent = one.bytes_received = 0;
  RanksSummary summary = of({one});
  summary.backend = "NCCL";
  EXPECT_THAT(summary_text(summary), Not(HasSubstr("sent")));
  EXPECT_THAT(summary_text(summary), Not(HasSubstr("compression"))) << "NCCL has none";
}

TEST(RankSummary, SaysHowManyUpdatesFp16Skipped) {
  RanksSummary summary = of({});
  EXPECT_THAT(summary_text(summary), Not(HasSubstr("skipped")));
  summary.precision = "fp16";
  summary.skipped = {.updates = 3, .loss_scale = 16384};
  EXPECT_THAT(summary_text(summary), HasSubstr("by the ring, fp16, 25 updates per epoch\n"
                                               "3 updates skipped: gradients were not finite in fp16; loss scale "
                                               "16384\n"));
}

TEST(RankSummary, NamesTheRankThatAllWaitFor) {
  EXPECT_THAT(summary_text(of({rank("rank_0", 4, 5), rank("rank_1", 9, 0.1)})),
              HasSubstr("Limited by rank_1: it computed for 90 % of the time, rank_0 for 40 %"));
}

TEST(RankSummary, BlamesTheNetworkWhereEvenTheSlowestRankWaits) {
  EXPECT_THAT(summary_text(of({rank("rank_0", 5, 4), rank("rank_1", 5.1, 4)})),
              HasSubstr("Limited by the network: even rank_1 waited for gradients for 40 % of the time"));
}

TEST(RankSummary, BlamesComputingOrTheLoaderWhereNobodyWaits) {
  EXPECT_THAT(summary_text(of({rank("rank_0", 9, 0)})), HasSubstr("Limited by computing: rank_0 was busy for 90 %"));
  EXPECT_THAT(summary_text(of({rank("rank_0", 3, 0)})), HasSubstr("Limited by the loop that gives the data"));
}

TEST(RankSummary, NothingIsSaidOfARunThatMeasuredNothing) {
  EXPECT_THAT(summary_text(of({rank("rank_0", 0, 0)})), HasSubstr("Nothing was measured"));
  EXPECT_THAT(summary_text(of({})), Not(HasSubstr("Limited")));
}

}  // namespace
}  // namespace ravnest::report
