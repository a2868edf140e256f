#include "ravnest/report/limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>

#include "ravnest/base/text.h"

namespace ravnest::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run of 100 s and 1000 passes, its stages busy for these shares.
RunSummary run_of(std::initializer_list<double> busy, double round_trip_s = 0.0002) {
  RunSummary run{.seconds = 100, .samples = 64'000, .epochs = 10, .window = static_cast<int>(busy.size())};
  for (const double share : busy) {
    const std::size_t index = run.nodes.size();
    run.nodes.push_back({.node = text("node_", index),
                         .role = index == 0                 ? "root"
                                 : index + 1 == busy.size() ? "leaf"
                                                            : "stem",
                         .work = {.running_s = 100,
                                  .forward_s = 30 * share,
                                  .backward_s = 60 * share,
                                  .update_s = 10 * share,
                                  .passes = 1000,
                                  .updates = 1000,
                                  .bytes_sent = 1'000'000 * (index + 1),
                                  .round_trip_s = round_trip_s}});
  }
  return run;
}

std::string words(const RunSummary& run) { return diagnosis_text(run, diagnose(run)); }

TEST(Limit, BusyStageAmongIdleOnesIsWhatTheyWaitFor) {
  const RunSummary run = run_of({0.41, 0.97, 0.45});
  const Diagnosis diagnosis = diagnose(run);
  EXPECT_EQ(diagnosis.limit, Limit::kStage);
  EXPECT_EQ(diagnosis.busiest, 1U);
  EXPECT_EQ(words(run),
            "Limited by the computing of node_1: busy for 97 % of the time, the others for 43 %. What helps: a smaller "
            "stage or a faster machine there; `ravnest plan` with each node's compute finds the cut.\n");
}

TEST(Limit, StagesThatAreAllBusyNeedFasterMachines) {
  EXPECT_EQ(diagnose(run_of({0.93, 0.97, 0.9})).limit, Limit::kAllStages);
  EXPECT_THAT(words(run_of({0.93, 0.97, 0.9})), HasSubstr("on all stages alike"));
  EXPECT_THAT(words(run_of({0.95})), HasSubstr("a faster machine, or more of them"));
}

TEST(Limit, LongRoundTripsWithAFullWindowAskForALargerOne) {
  // 0.3 s of computing in all and two trips of 1 s: at 10 passes a second, 23 are under way.
  RunSummary run = run_of({0.6, 0.6, 0.6}, 1);
  run.window = 24;
  EXPECT_EQ(diagnose(run).limit, Limit::kNetwork);
  EXPECT_TRUE(diagnose(run).window_full);
  EXPECT_THAT(words(run), AllOf(HasSubstr("a window larger than 24"), HasSubstr(", or compression='int8'")));
  run.compression = "int8";
  EXPECT_THAT(words(run), AllOf(HasSubstr("a window larger than 24"), Not(HasSubstr("compression"))));
}

TEST(Limit, LongRoundTripsInAWideWindowAskForCompression) {
  RunSummary run = run_of({0.6, 0.6, 0.6}, 1);
  run.window = 100;
  EXPECT_EQ(diagnose(run).limit, Limit::kNetwork);
  EXPECT_THAT(words(run), AllOf(Not(HasSubstr("window")), HasSubstr("compression='int8'")));
  run.compression = "topk:0.01";
  EXPECT_THAT(words(run), HasSubstr("links with more bandwidth"));
}

TEST(Limit, LeafHasNoNextStageSoItsRoundTripDoesNotCount) {
  RunSummary run = run_of({0.2, 0.2});
  run.nodes.back().work.round_trip_s = 100;
  EXPECT_EQ(diagnose(run).limit, Limit::kData);
}

TEST(Limit, NarrowWindowLeavesStagesWithoutAPass) {
  RunSummary run = run_of({0.3, 0.3, 0.3});
  run.window = 1;
  EXPECT_EQ(diagnose(run).limit, Limit::kWindow);
  EXPECT_THAT(words(run), HasSubstr("with 1 at a time"));
}

TEST(Limit, WindowOfZeroIsAsWideAsTheCluster) {
  RunSummary run = run_of({0.3, 0.3, 0.3});
  run.window = 0;
  EXPECT_EQ(diagnose(run), diagnose(run_of({0.3, 0.3, 0.3})));
}

TEST(Limit, IdleStagesWithShortRoundTripsWaitForTheData) {
  const RunSummary run = run_of({0.2, 0.1, 0.15});
  EXPECT_EQ(diagnose(run).limit, Limit::kData);
  EXPECT_THAT(words(run), AllOf(HasSubstr("no stage was busy for more than 20 %"), HasSubstr("num_workers"),
                                HasSubstr("node_2 sent 30.0 kB/s")));
  EXPECT_EQ(diagnose(run_of({0.5})).limit, Limit::kData);
  EXPECT_THAT(words(run_of({0.5})), Not(HasSubstr("links")));
}

TEST(Limit, FlushOfASynchronousScheduleIsToldFromASlowLoader) {
  RunSummary run = run_of({0.6, 0.6, 0.6});
  run.schedule = "sync";
  for (NodeSummary& node : run.nodes) node.work.updates = node.work.passes / 4;
  EXPECT_EQ(diagnose(run).limit, Limit::kSchedule);
  EXPECT_NEAR(diagnose(run).possible_busy, 4.0 / 6, 1e-9);
  EXPECT_THAT(words(run), AllOf(HasSubstr("with 4 passes per update, 3 stages can be busy for 67 %"),
                                HasSubstr("more microbatches")));
  for (NodeSummary& node : run.nodes) node.work.running_s = 400;
  EXPECT_EQ(diagnose(run).limit, Limit::kData);
}

TEST(Limit, BetweenBusyAndIdleNothingStandsOut) {
  EXPECT_EQ(diagnose(run_of({0.8, 0.7})).limit, Limit::kSeveral);
  EXPECT_THAT(words(run_of({0.8, 0.7})), HasSubstr("Nothing stands out: the busiest stage, node_0, computed for 80 %"));
}

TEST(Limit, ThresholdsAreWhereTheyAreSaidToBe) {
  EXPECT_EQ(diagnose(run_of({0.9, 0.1})).limit, Limit::kStage);
  EXPECT_EQ(diagnose(run_of({0.89, 0.1})).limit, Limit::kSeveral);
  EXPECT_EQ(diagnose(run_of({0.7, 0.1})).limit, Limit::kSeveral);
  EXPECT_EQ(diagnose(run_of({0.69, 0.1})).limit, Limit::kData);
}

TEST(Limit, OldWeightsAreMentionedWhereEachBatchIsAnUpdate) {
  RunSummary run = run_of({0.95, 0.95, 0.95});
  run.nodes[0].work.staleness_mean = 2;
  EXPECT_TRUE(diagnose(run).stale);
  EXPECT_THAT(words(run), HasSubstr("The weights of node_0 were 2 updates old on average"));
  run.nodes[0].work.updates = run.nodes[0].work.passes / 4;
  EXPECT_FALSE(diagnose(run).stale);
  run = run_of({0.95, 0.95, 0.95});
  run.nodes[0].work.staleness_mean = 1.99;
  EXPECT_FALSE(diagnose(run).stale);
}

TEST(Limit, NothingMeasuredIsNoDiagnosis) {
  EXPECT_EQ(diagnose({}), Diagnosis());
  EXPECT_EQ(diagnose(run_of({0, 0})), Diagnosis());
  RunSummary run = run_of({0.5});
  run.nodes[0].work.running_s = 0;
  EXPECT_EQ(diagnose(run), Diagnosis());
  EXPECT_THAT(words({}), HasSubstr("Nothing was measured"));
}

TEST(Limit, NumbersWithoutSenseAreSurvived) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::max()}) {
    RunSummary run = run_of({0.5, 0.5, 0.5});
    run.nodes[0].work.round_trip_s = run.nodes[1].work.round_trip_s = run.nodes[1].work.forward_s = bad;
    run.nodes[2].work.running_s = bad;
    EXPECT_THAT(words(run), Not(HasSubstr("nan")));
  }
}

}  // namespace
}  // namespace ravnest::report
