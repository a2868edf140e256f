#include <gmock/gmock.h>

#include "ravnest/base/json.h"
#include "ravnest/plan/show/drawing.h"
#include "ravnest/plan/simulate/simulation_svg.h"
#include "ravnest/plan/simulate/simulation_text.h"
#include "ravnest/plan/testing/well_formed.h"

namespace ravnest::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

PlanRate rate_of(double samples_per_s) {
  PlanRate rate;
  rate.samples_per_s = samples_per_s;
  rate.clusters = 2;
  rate.nodes = 6;
  rate.slowest_cluster = 1;
  rate.slowest_node = 4;
  rate.limit = Limit::kSend;
  rate.period_s = 0.0125;
  return rate;
}

std::vector<SimulatedStep> steps() {
  PlanRate half = rate_of(200);
  half.clusters = 1;
  half.still_clusters = 1;
  half.first_lost = 3;
  half.nodes = 3;
  PlanRate nothing;
  nothing.still_clusters = 2;
  nothing.first_lost = 0;
  return {{"start", 6, rate_of(400), rate_of(400), ""},
          {"<slow> & \"old\"", 8, rate_of(400), rate_of(436), ""},
          {"node_3 leaves", 7, half, rate_of(390), ""},
          {"all others leave", 1, nothing, std::nullopt, "the pool is too small"},
          {"new ones join", 5, nothing, rate_of(300), ""}};
}

TEST(SimulationText, TheTablesHaveOneLinePerStep) {
  EXPECT_EQ(simulation_table(steps()),
            "event             nodes  kept  clusters  used  anew  clusters  used   gain\n"
            "start                 6   400         2     6   400         2     6     1x\n"
            "<slow> & \"old\"        8   400         2     6   436         2     6  1.09x\n"
            "node_3 leaves         7   200         1     3   390         2     6  1.95x\n"
            "all others leave      1     0         0     0\n"
            "new ones join         5     0         0     0   300         2     6\n"
            "\n"
            "event             kept: limited by                                                         "
            "anew: limited by\n"
            "start             node_4 sends, 12.5 ms per batch                                          "
            "node_4 sends, 12.5 ms per batch\n"
            "<slow> & \"old\"    node_4 sends, 12.5 ms per batch                                          "
            "node_4 sends, 12.5 ms per batch\n"
            "node_3 leaves     node_4 sends, 12.5 ms per batch; 1 cluster stands still, node_3 is gone  "
            "node_4 sends, 12.5 ms per batch\n"
            "all others leave  2 clusters stand still, node_0 is gone                                   no plan\n"
            "new ones join     2 clusters stand still, node_0 is gone                                   "
            "node_4 sends, 12.5 ms per batch\n");
}

TEST(SimulationText, AdviceIsGivenFromTenPercentOn) {
  EXPECT_EQ(advice(steps()),
            "After \"node_3 leaves\" planning anew gains 95 %: 390 instead of 200 samples/s.\n"
            "After \"all others leave\" no plan can be made: the pool is too small\n"
            "After \"new ones join\" nothing trains any more; planning anew gives 300 samples/s.\n");
  EXPECT_EQ(advice({steps()[0], steps()[1]}), "");
}

TEST(SimulationText, BarsAreAsLongAsTheirFigures) {
  EXPECT_EQ(bars({steps()[0], steps()[2], steps()[3]}, 74),
            "start             kept  ======================================== 400\n"
            "                  anew  ######################################## 400\n"
            "node_3 leaves     kept  ==================== 200\n"
            "                  anew  ####################################### 390\n"
            "all others leave  kept  0\n"
            "                  anew  no plan\n");
}

TEST(SimulationText, ARoundTripIsTheClustersNotANodes) {
  PlanRate rate = rate_of(10);
  rate.limit = Limit::kRoundTrip;
  EXPECT_EQ(limit_words(rate), "round trip of cluster 1, 12.5 ms per batch");
}

TEST(SimulationJson, AllFiguresAreInTheFile) {
  const Result<nlohmann::json> file = parse_json(encode_steps(steps()), "file");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)["version"], 1);
  const nlohmann::json& all = (*file)["steps"];
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[2]["event"], "node_3 leaves");
  EXPECT_EQ(all[2]["nodes"], 7);
  EXPECT_EQ(all[2]["kept"]["samples_per_s"], 200);
  EXPECT_EQ(all[2]["kept"]["still_clusters"], 1);
  EXPECT_EQ(all[2]["anew"]["slowest"]["node"], 4);
  EXPECT_EQ(all[2]["anew"]["slowest"]["limit"], "send");
  EXPECT_TRUE(all[3]["anew"].is_null());
  EXPECT_EQ(all[3]["no_plan"], "the pool is too small");
  EXPECT_FALSE(all[3]["kept"].contains("slowest"));
}

TEST(SimulationSvg, BothCurvesAndEveryEventAreDrawn) {
  const std::string svg = simulation_svg(steps());
  EXPECT_EQ(why_not_well_formed(svg), "");
  EXPECT_THAT(svg, HasSubstr("&lt;slow&gt; &amp; &quot;old&quot;"));
  for (const SimulatedStep& step : steps()) {
    EXPECT_THAT(svg, HasSubstr(">" + escape_xml(step.event) + "</text>"));
  }
  // From (90, 92): 560 wide for five steps, 320 high for 0 to 500. Kept goes 400, 400, 200, 0, 0.
  EXPECT_THAT(svg, HasSubstr("M90 156H202L202 156H314L314 284H426L426 412H538L538 412H650"));
  // The new plan goes 400, 436, 390, is missing for one step, and goes on with 300.
  EXPECT_THAT(svg, HasSubstr("M90 156H202L202 132.96H314L314 162.4H426M538 220H650"));
  EXPECT_THAT(svg, HasSubstr(">no plan</text>"));
}

TEST(SimulationSvg, ManyEventsAreNotAllNamedAndNothingIsStillAPlot) {
  std::vector<SimulatedStep> many;
  for (int i = 0; i < 400; ++i) many.push_back({text("event ", i), 6, rate_of(100 + i), rate_of(500), ""});
  const std::string svg = simulation_svg(many);
  EXPECT_EQ(why_not_well_formed(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr(">event 1</text>")));
  EXPECT_THAT(svg, HasSubstr(">event 7</text>"));
  EXPECT_EQ(why_not_well_formed(simulation_svg({})), "");
  EXPECT_EQ(why_not_well_formed(simulation_svg({{"start", 1, PlanRate(), std::nullopt, "x"}})), "");
}

}  // namespace
}  // namespace ravnest::plan
