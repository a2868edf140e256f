#include "ravnest/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NodeSummary sample() {
  return {.node = "node_1",
          .role = "stem",
          .work = {.running_s = 62.5,
                   .forward_s = 18.75,
                   .backward_s = 37.5,
                   .update_s = 3.125,
                   .passes = 170,
                   .updates = 170,
                   .staleness_mean = 0.99,
                   .staleness_most = 1,
                   .versions_most = 2,
                   .bytes_sent = 12'300'000,
                   .bytes_received = 12'400'000,
                   .tensor_bytes_sent = 12'000'000,
                   .round_trip_s = 0.00021}};
}

TEST(SummaryText, SaysWhatWasDoneByWhomAndWhatLimitedIt) {
  RunSummary run{.seconds = 62.5,
                 .samples = 10'780,
                 .epochs = 10,
                 .updates_per_epoch = 17,
                 .accuracy = 94.575,
                 .window = 2,
                 .nodes = {sample(), sample()}};
  run.nodes[0].node = "node_0";
  run.nodes[0].role = "root";
  run.nodes[0].work.forward_s = 6.25;
  run.nodes[0].work.backward_s = 12.5;
  run.nodes[0].work.bytes_sent = 9'870;
  run.nodes[1].role = "leaf";
  run.nodes[1].work.round_trip_s = 0;
  EXPECT_EQ(summary_text(run),
            "Trained 10 epochs in 1 min 03 s: 10780 samples, 172 samples/s, accuracy 94.58 %\n"
            "schedule async, window 2, 17 updates per epoch\n"
            "\n"
            "node    role  busy  forward  backward  update  staleness  most  versions     sent  received  round trip\n"
            "node_0  root  35 %     10 %      20 %     5 %       0.99     1         2  9.87 kB   12.4 MB      210 us\n"
            "node_1  leaf  95 %     30 %      60 %     5 %       0.99     1         2  12.3 MB   12.4 MB\n"
            "\n"
            "Limited by the computing of node_1: busy for 95 % of the time, the others for 35 %. What helps: a smaller "
            "stage or a faster machine there; `ravnest plan` with each node's compute finds the cut.\n");
}

TEST(SummaryText, RunWithoutSamplesOrTimeHasNoRate) {
  EXPECT_EQ(summary_text({.epochs = 1, .compression = "int8"}),
            "Trained 1 epoch in 0 s: 0 samples\nschedule async, compression int8\n");
  EXPECT_THAT(summary_text({.samples = 10, .epochs = 1, .nodes = {{.node = "node_0", .role = "solo"}}}),
              HasSubstr("Nothing was measured"));
}

TEST(SummaryText, NamesFromOutsideAreMadeFitToPrint) {
  EXPECT_THAT(summary_text({.nodes = {{.node = "x\x1b[2J", .role = "root"}}}), Not(HasSubstr("\x1b")));
}

TEST(RunSummary, TheFirstLineSaysThatTheLossWasNotFinite) {
  RunSummary run{.seconds = 2, .samples = 280, .epochs = 2};
  run.bad_losses = {.steps = 11, .first = 4, .last = 14};
  EXPECT_THAT(summary_text(run),
              testing::StartsWith("Trained 2 epochs in 2 s, but the loss was not finite in 11 steps, "
                                  "first in step 4: 280 samples, 140 samples/s\n"));
}

}  // namespace
}  // namespace ravnest::report
