#include "ravnest/plan/averaging_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> numbers(const std::vector<AveragingGroup>& averaging_groups) {
  std::vector<int> result;
  for (const AveragingGroup& averaging_group : averaging_groups) result.push_back(averaging_group.number);
  return result;
}

const PlannedStage& stage_of(const Plan& plan, int node) {
  const std::pair<int, int> place = plan.place_of(node);
  return plan.clusters[place.first].stages[place.second];
}

// What is promised of any plan of several clusters.
void expect_sound(const Plan& plan) {
  const std::vector<AveragingGroup> averaging_groups = averaging_groups_of(plan);
  int reached = 0;
  for (std::size_t i = 0; i < averaging_groups.size(); ++i) {
    const AveragingGroup& averaging_group = averaging_groups[i];
    EXPECT_EQ(averaging_group.number, static_cast<int>(i));
    EXPECT_EQ(averaging_group.begin, reached) << "every operator is in exactly one averaging group";
    EXPECT_LT(averaging_group.begin, averaging_group.end);
    reached = averaging_group.end;
    ASSERT_EQ(averaging_group.nodes.size(), plan.clusters.size());
    for (std::size_t c = 0; c < averaging_group.nodes.size(); ++c) {
      EXPECT_EQ(plan.place_of(averaging_group.nodes[c]).first, static_cast<int>(c));
      EXPECT_LE(stage_of(plan, averaging_group.nodes[c]).begin, averaging_group.begin);
      EXPECT_GE(stage_of(plan, averaging_group.nodes[c]).end, averaging_group.end);
    }
  }
  EXPECT_EQ(reached, plan.operators);
  for (int node = 0; node < static_cast<int>(plan.pool.nodes.size()); ++node) {
    int at = stage_of(plan, node).begin;
    for (const AveragingGroup& averaging_group : averaging_groups_of(plan, node)) {
      EXPECT_EQ(averaging_group.begin, at);
      at = averaging_group.end;
    }
    EXPECT_EQ(at, stage_of(plan, node).end) << "a node's averaging groups are its stage";
  }
}

TEST(AveragingGroups, OfEqualClustersAreTheirStages) {
  const Plan plan = cut_plan(10, {{4, 7}, {4, 7}});
  EXPECT_THAT(averaging_groups_of(plan),
              ElementsAre(AveragingGroup{0, 0, 4, 0, {0, 3}}, AveragingGroup{1, 4, 7, 1, {1, 4}},
                          AveragingGroup{2, 7, 10, 2, {2, 5}}));
  expect_sound(plan);
}

TEST(AveragingGroups, OfTwoAndThreeStagesAreWhatIsLeftBetweenAllCuts) {
  const Plan plan = cut_plan(10, {{5}, {2, 6}});  // nodes 0 and 1; 2, 3 and 4
  EXPECT_THAT(averaging_groups_of(plan),
              ElementsAre(AveragingGroup{0, 0, 2, 0, {0, 2}}, AveragingGroup{1, 2, 5, 1, {0, 3}},
                          AveragingGroup{2, 5, 6, 1, {1, 3}}, AveragingGroup{3, 6, 10, 2, {1, 4}}));
  EXPECT_THAT(numbers(averaging_groups_of(plan, 0)), ElementsAre(0, 1));
  EXPECT_THAT(numbers(averaging_groups_of(plan, 3)), ElementsAre(1, 2));
  EXPECT_THAT(numbers(averaging_groups_of(plan, 4)), ElementsAre(3));
  expect_sound(plan);
}

TEST(AveragingGroups, OfTwoThreeAndFiveStagesFallInTheRingsOfTheFive) {
  const Plan plan = cut_plan(20, {{10}, {6, 14}, {4, 8, 12, 16}});
  EXPECT_THAT(averaging_groups_of(plan),
              ElementsAre(AveragingGroup{0, 0, 4, 0, {0, 2, 5}}, AveragingGroup{1, 4, 6, 1, {0, 2, 6}},
                          AveragingGroup{2, 6, 8, 1, {0, 3, 6}}, AveragingGroup{3, 8, 10, 2, {0, 3, 7}},
                          AveragingGroup{4, 10, 12, 2, {1, 3, 7}}, AveragingGroup{5, 12, 14, 3, {1, 3, 8}},
                          AveragingGroup{6, 14, 16, 3, {1, 4, 8}}, AveragingGroup{7, 16, 20, 4, {1, 4, 9}}));
  expect_sound(plan);
}

TEST(AveragingGroups, OfNodesThatHoldTheModelAloneAreOne) {
  const Plan plan = cut_plan(10, {{}, {}, {}});
  EXPECT_THAT(averaging_groups_of(plan), ElementsAre(AveragingGroup{0, 0, 10, 0, {0, 1, 2}}));
  expect_sound(plan);
  expect_sound(cut_plan(10, {{}, {3, 9}}));
}

TEST(AveragingGroups, RingsAreThoseOfTheFirstOfTheLongestClusters) {
  EXPECT_THAT(averaging_groups_of(cut_plan(10, {{5}, {3}})),
              ElementsAre(AveragingGroup{0, 0, 3, 0, {0, 2}}, AveragingGroup{1, 3, 5, 0, {0, 3}},
                          AveragingGroup{2, 5, 10, 1, {1, 3}}));
}

TEST(AveragingGroups, AnOnlyClusterHasNone) {
  EXPECT_THAT(averaging_groups_of(cut_plan(10, {{5}})), IsEmpty());
  EXPECT_THAT(averaging_groups_of(cut_plan(10, {{5}}), 0), IsEmpty());
}

TEST(AveragingGroups, AnUnusedNodeHasNone) {
  Plan plan = cut_plan(10, {{5}, {5}});
  plan.pool = equal_pool(5, 8, 10);
  EXPECT_THAT(averaging_groups_of(plan, 4), IsEmpty());
}

TEST(AveragingGroups, AnOperatorIsFoundInItsAveragingGroupAndTheReturnInTheLast) {
  const Plan plan = cut_plan(10, {{5}, {2, 6}});
  const std::vector<AveragingGroup> all = averaging_groups_of(plan);
  EXPECT_EQ(averaging_group_at(all, 0)->number, 0);
  EXPECT_EQ(averaging_group_at(all, 1)->number, 0);
  EXPECT_EQ(averaging_group_at(all, 2)->number, 1);
  EXPECT_EQ(averaging_group_at(all, 9)->number, 3);
  EXPECT_EQ(averaging_group_at(all, 10)->number, 3);
  const std::vector<AveragingGroup> last = averaging_groups_of(plan, 1);
  EXPECT_EQ(averaging_group_at(last, 4), nullptr) << "of another stage";
  EXPECT_EQ(averaging_group_at({}, 0), nullptr);
}

// Rings are made of parameters, averaging groups of operators: both have to agree on who serves which ring.
TEST(AveragingGroups, ANodesRingsAreThoseOfItsAveragingGroups) {
  std::mt19937 random(23);
  for (int round = 0; round < 300; ++round) {
    const int operators = 6 + static_cast<int>(random() % 20);
    const ModelCosts costs = chain(std::vector<Layer>(operators, {10, 1, 4}));
    Formation formation;
    int nodes = 0;
    for (unsigned c = 0; c < 2 + random() % 3; ++c) {
      FormedCluster& cluster = formation.clusters.emplace_back();
      for (int p = 1; p < operators; ++p) {
        if (random() % 4 == 0) cluster.cutting.cuts.push_back(p);
      }
      for (std::size_t s = 0; s <= cluster.cutting.cuts.size(); ++s) cluster.nodes.push_back(nodes++);
    }
    const Plan plan = complete_plan(costs, equal_pool(nodes, 8, 10), formation, {});
    expect_sound(plan);
    for (int node = 0; node < nodes; ++node) {
      std::vector<std::int64_t> of_averaging_groups(64, 0);
      std::vector<std::int64_t> of_rings(64, 0);
      for (const AveragingGroup& averaging_group : averaging_groups_of(plan, node))
        of_averaging_groups[averaging_group.ring] += 10 * (averaging_group.end - averaging_group.begin);
      for (const RingPart& part : stage_of(plan, node).rings) of_rings[part.ring] += part.elements;
      EXPECT_EQ(of_averaging_groups, of_rings);
    }
  }
}

}  // namespace
}  // namespace ravnest::plan
