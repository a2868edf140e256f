#include "ravnest/plan/show/svg.h"

#include <gmock/gmock.h>

#include <array>

#include "ravnest/plan/show/drawing.h"
#include "ravnest/plan/show/ring_bands.h"
#include "ravnest/plan/testing/sample_costs.h"
#include "ravnest/plan/testing/well_formed.h"

namespace ravnest::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan planned(const ModelCosts& costs, const Pool& pool) {
  FormOptions options;
  options.seed = 3;
  const Result<Formation> formed = form_clusters(costs, pool, options);
  return complete_plan(costs, pool, *formed, options);
}

ModelCosts tower() {
  std::vector<Layer> layers;
  for (int i = 0; i < 12; ++i) layers.push_back({2'000'000 + 300'000 * i, 4e9 + 1e8 * i, 400'000});
  return chain(layers);
}

// Two clusters cut at different places, so that a ring has several members in one of them.
Plan two_clusters() {
  Pool pool = equal_pool(5, 8, 1000);
  for (int i = 0; i < 5; ++i) pool.nodes[i].compute_gflops = 100 + 25 * i;
  const ModelCosts costs = tower();
  Formation formation;
  formation.balance = Balance::kTime;
  const auto cluster = [&](std::vector<int> nodes, std::vector<int> cuts) {
    FormedCluster made;
    made.nodes = std::move(nodes);
    made.cutting.cuts = std::move(cuts);
    return made;
  };
  formation.clusters = {cluster({0, 1, 2}, {4, 8}), cluster({3, 4}, {7})};
  return complete_plan(costs, pool, formation, {});
}

std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(WellFormed, TheWalkSeesWhatIsWrong) {
  EXPECT_EQ(why_not_well_formed("<a b=\"1\"><c/>x &amp; y</a>\n"), "");
  for (const char* bad : {"<a><b></a>", "<a>", "</a>", "<a/><b/>", "<a b=1/>", "<a b=\"<\"/>", "<a>&nbsp;</a>",
                          "<a b=\"1\" b=\"2\"/>", "<a>1 < 2</a>", "x", ""})
    EXPECT_NE(why_not_well_formed(bad), "") << bad;
}

TEST(Svg, EveryNodeAndEveryRingIsInTheDrawing) {
  const std::string svg = to_svg(two_clusters());
  EXPECT_EQ(why_not_well_formed(svg), "");
  for (int node = 0; node < 5; ++node) EXPECT_THAT(svg, HasSubstr(">" + node_name(node) + "</text>"));
  for (const char* ring :
       {"ring 0: L__self___layer_0.weight", "ring 1: L__self___layer_4.weight", "ring 2: L__self___layer_8.weight"})
    EXPECT_THAT(svg, HasSubstr(ring));
  for (const char* part : {">cluster 0<", ">cluster 1<", ">root", ">stem", ">leaf", "from layer_7", "not used"})
    EXPECT_EQ(svg.find(part) != std::string::npos, std::string_view(part) != "not used") << part;
  EXPECT_EQ(occurrences(svg, ", slowest<"), 2U);
}

TEST(Svg, ARingJoinsTheNodesThatHoldTheSameElements) {
  const Plan plan = two_clusters();
  const std::vector<RingJoint> joints = ring_joints(ring_bands(plan.clusters[0]), ring_bands(plan.clusters[1]));
  std::vector<std::array<int, 3>> pairs;
  for (const RingJoint& joint : joints) pairs.push_back({joint.ring, joint.upper_stage, joint.lower_stage});
  EXPECT_THAT(pairs,
              testing::ElementsAre(std::array{0, 0, 0}, std::array{1, 1, 0}, std::array{1, 1, 1}, std::array{2, 2, 1}));
  const std::string svg = to_svg(plan);
  EXPECT_THAT(svg, HasSubstr("ring 1: node_1 and node_3"));
  EXPECT_THAT(svg, HasSubstr("ring 1: node_1 and node_4"));
  EXPECT_THAT(svg, Not(HasSubstr("ring 0: node_0 and node_4")));
}

TEST(Svg, StagesOfOneRingThatShareNoElementsAreNotJoined) {
  // Ring, stage, elements, share of the edge.
  const std::vector<RingBand> upper = {{1, 0, 0, 30, 0.5, 1}, {1, 1, 30, 40, 0, 0.25}};
  const std::vector<RingBand> lower = {{1, 0, 0, 10, 0.8, 1}, {1, 1, 10, 40, 0, 0.6}, {2, 1, 0, 9, 0.6, 1}};
  const std::vector<RingJoint> joints = ring_joints(upper, lower);
  ASSERT_EQ(joints.size(), 3U);
  EXPECT_EQ(joints[1].upper_stage, 0);
  EXPECT_EQ(joints[1].lower_stage, 1);
  EXPECT_DOUBLE_EQ(joints[1].upper_left, 0.5 + 0.5 / 3);
  EXPECT_DOUBLE_EQ(joints[1].lower_right, 0.4);
  EXPECT_EQ(joints[2].upper_stage, 1);
  EXPECT_EQ(joints[2].lower_stage, 1);
}

TEST(Svg, AStagesEdgeIsDividedByTheElementsOfItsRings) {
  const Plan plan = two_clusters();
  const std::vector<RingBand> bands = ring_bands(plan.clusters[1]);
  ASSERT_EQ(bands.size(), 4U);
  const double ring_0 = 4 * 2'000'000 + 6 * 300'000;   // layers 0 to 3
  const double both = 7 * 2'000'000.0 + 21 * 300'000;  // layers 0 to 6
  EXPECT_DOUBLE_EQ(bands[0].right, ring_0 / both);
  EXPECT_DOUBLE_EQ(bands[1].left, bands[0].right);
  EXPECT_DOUBLE_EQ(bands[1].right, 1);
  EXPECT_EQ(bands[2].first, bands[1].end);
}

TEST(Svg, WhatUsersWriteIsEscaped) {
  Pool pool = equal_pool(3, 8, 10);
  pool.nodes[0].label = R"(a<b>&"c")";
  pool.nodes[1].label = "caf\xc3\xa9 \xff\x01";
  ModelCosts costs = digits();
  for (OperatorCost& each : costs.operators) each.module = "<" + each.module + ">";
  for (StoredCost& each : costs.stored) each.name = "&" + each.name;
  const std::string svg = to_svg(planned(costs, pool));
  EXPECT_EQ(why_not_well_formed(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr("caf\xc3\xa9 ??"));
  EXPECT_THAT(svg, HasSubstr("from &lt;dense_1&gt;"));
}

TEST(Svg, UnusedNodesAreListed) {
  Plan plan = two_clusters();
  plan.pool.nodes.push_back(machine(1, 10, 9000));
  plan.unused = {5};
  EXPECT_THAT(to_svg(plan), HasSubstr("1 node not used"));
  EXPECT_THAT(to_svg(plan), HasSubstr("node_5 (0.0.0.0:9000)"));
  for (int i = 6; i < 200; ++i) {
    plan.pool.nodes.push_back(machine(1, 10, 9000 + i));
    plan.unused.push_back(i);
  }
  EXPECT_THAT(to_svg(plan), HasSubstr("and 147 more"));
  EXPECT_EQ(why_not_well_formed(to_svg(plan)), "");
}

TEST(Svg, OfHundredsOfClustersTheFirst24AreDrawnAndTheRestCounted) {
  Plan plan = two_clusters();
  while (plan.clusters.size() < 300) plan.clusters.push_back(plan.clusters[plan.clusters.size() % 2]);
  const std::string svg = to_svg(plan);
  EXPECT_EQ(why_not_well_formed(svg), "");
  EXPECT_THAT(svg, HasSubstr(">cluster 23<"));
  EXPECT_THAT(svg, Not(HasSubstr(">cluster 24<")));
  EXPECT_THAT(svg, HasSubstr("and 276 more clusters"));
  EXPECT_LT(svg.size(), 400'000U);
}

TEST(Svg, OfHundredsOfStagesTheFirst23AndTheLeafAreDrawn) {
  Plan plan = two_clusters();
  std::vector<PlannedStage>& stages = plan.clusters[0].stages;
  const PlannedStage leaf = stages.back();
  while (stages.size() < 200) stages.insert(stages.begin() + 1, stages[1]);
  const std::string svg = to_svg(plan);
  EXPECT_EQ(why_not_well_formed(svg), "");
  EXPECT_THAT(svg, HasSubstr("176 not drawn"));
  EXPECT_THAT(svg, HasSubstr(">" + node_name(leaf.node) + "</text>"));
}

TEST(Svg, APlanWithoutClustersIsStillADrawing) { EXPECT_EQ(why_not_well_formed(to_svg(Plan())), ""); }

TEST(Drawing, WordsAreShortenedByCharacters) {
  EXPECT_EQ(shortened("abcd", 4), "abcd");
  EXPECT_EQ(shortened("abcde", 4), "abc\u2026");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9", 2), "\u00e9\u2026");
}

TEST(Drawing, CharactersThatXmlForbidsBecomeQuestionMarks) {
  EXPECT_EQ(escape_xml("a\xef\xbf\xbf\xef\xbf\xbe\x02"), "a???");
}

}  // namespace
}  // namespace ravnest::plan
