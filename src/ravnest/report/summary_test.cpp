#include "ravnest/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ravnest/base/json.h"

namespace ravnest::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NodeSummary sample() {
  return {.node = "node_1",
          .role = "stem",
          .running_s = 62.5,
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
          .round_trip_s = 0.00021};
}

Result<NodeSummary> decode(const std::string& json) { return decode_node_summary(json, "the summary of node_1"); }

TEST(NodeSummary, ReadsBackAsItWasWritten) {
  const auto decoded = decode(encode(sample()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, sample());
}

TEST(NodeSummary, FormatIsAsItWas) {
  EXPECT_EQ(encode(sample()),
            R"({"node":"node_1","role":"stem","running_s":62.5,"forward_s":18.75,"backward_s":37.5,"update_s":3.125,)"
            R"("passes":170,"updates":170,"staleness_mean":0.99,"staleness_most":1,"versions_most":2,)"
            R"("bytes_sent":12300000,"bytes_received":12400000,"tensor_bytes_sent":12000000,"round_trip_s":0.00021})");
}

TEST(NodeSummary, EveryMissingOrWrongValueIsCorruptAndNamed) {
  const nlohmann::json good = nlohmann::json::parse(encode(sample()));
  for (const auto& [key, value] : good.items()) {
    nlohmann::json missing = good;
    missing.erase(key);
    EXPECT_EQ(decode(missing.dump()).status(), corrupt("the summary of node_1: no \"", key, "\""));
    for (const std::string bad :
         {"null", "-1", "[]", "{}", "true", "\"Infinity\"", "\"NaN\"", "\"\"", "\"nobody\\u0007\""}) {
      nlohmann::json wrong = good;
      wrong[key] = nlohmann::json::parse(bad);
      if (key == "node" && (bad == "\"Infinity\"" || bad == "\"NaN\"")) continue;  // names like any other
      const Status status = decode(wrong.dump()).status();
      EXPECT_EQ(status.code(), Code::kCorrupt) << key << " " << bad;
      EXPECT_THAT(status.message(), HasSubstr("the summary of node_1." + key + ": expected")) << bad;
    }
  }
}

TEST(NodeSummary, CountsAreWholeAndNotTooLarge) {
  for (const char* bad : {"1.5", "9223372036854775808", "1e3"}) {
    nlohmann::json wrong = nlohmann::json::parse(encode(sample()));
    wrong["passes"] = nlohmann::json::parse(bad);
    EXPECT_EQ(decode(wrong.dump()).status().code(), Code::kCorrupt) << bad;
  }
}

TEST(NodeSummary, WhatIsNoSummaryIsCorrupt) {
  for (const char* bad : {"", "null", "[]", "17", "{", R"({"node": "node_1"} x)"})
    EXPECT_EQ(decode(bad).status().code(), Code::kCorrupt) << bad;
  NodeSummary long_name = sample();
  long_name.node = std::string(201, 'x');
  EXPECT_EQ(decode(encode(long_name)).status().code(), Code::kCorrupt);
  const std::string padded = encode(sample()) + std::string(kLongestSummary, ' ');
  EXPECT_EQ(decode(padded).status(),
            corrupt("the summary of node_1: ", padded.size(), " bytes are too many for a summary"));
}

TEST(NodeSummary, KeysOfLaterVersionsAreIgnored) {
  nlohmann::json later = nlohmann::json::parse(encode(sample()));
  later["colour"] = "green";
  EXPECT_EQ(decode(later.dump()).value(), sample());
}

TEST(NodeSummary, MeansOfNothingAreWrittenAsZero) {
  NodeSummary summary = sample();
  summary.staleness_mean = std::numeric_limits<double>::quiet_NaN();
  summary.running_s = std::numeric_limits<double>::infinity();
  summary.update_s = -1e-9;
  summary.passes = std::numeric_limits<std::uint64_t>::max();
  const auto decoded = decode(encode(summary));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->staleness_mean, 0);
  EXPECT_EQ(decoded->running_s, 0);
  EXPECT_EQ(decoded->update_s, 0);
  EXPECT_EQ(decoded->passes, static_cast<std::uint64_t>(INT64_MAX));
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
  run.nodes[0].forward_s = 6.25;
  run.nodes[0].backward_s = 12.5;
  run.nodes[0].bytes_sent = 9'870;
  run.nodes[1].role = "leaf";
  run.nodes[1].round_trip_s = 0;
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
