#include "ravnest/plan/search/obstacles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/plan/search/form.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using testing::HasSubstr;

TEST(Obstacles, AStretchWithoutACutIsNamedWithItsReason) {
  ModelCosts costs = chain({{100, 1, 8}, {100, 1, 8}, {100, 1, 8}, {100, 1, 8}});
  for (const int p : {2, 3}) {
    costs.operators[p].cut_allowed = false;
    costs.operators[p].refusal = "not between the making of \"out\" and its last change in place, by \"copy_\" in net";
  }
  EXPECT_EQ(what_limits_cuts(costs),
            "no cut is possible from \"op_1\" (layer_1) to \"op_3\" (layer_3), which hold 75 % of the parameters (of "
            "layer_1 to layer_3): not between the making of \"out\" and its last change in place, by \"copy_\" in net");
}

TEST(Obstacles, AnOperatorThatHoldsEverythingIsNamed) {
  ModelCosts costs = chain({{1000, 1, 8}, {10, 1, 8}});
  for (const char* name : {"rnn.bias", "rnn.weight_hh"}) costs.stored.push_back({name, 4000, 1000, true, true, {0}});
  EXPECT_THAT(what_limits_cuts(costs), HasSubstr("one operator, \"op_0\" (layer_0), holds "));
}

TEST(Obstacles, AModelOfFewLayersIsJustThat) {
  EXPECT_THAT(what_limits_cuts(chain({{100, 1, 8}, {0, 1, 8}, {100, 1, 8}})), HasSubstr("a parameter of its own"));
}

TEST(Obstacles, TheReasonStandsWhereANodeIsLeftOutAndWhereNothingCanBePlanned) {
  ModelCosts costs = chain({{100, 1, 8}, {100, 1, 8}, {100, 1, 8}});
  for (const int p : {1, 2}) {
    costs.operators[p].cut_allowed = false;
    costs.operators[p].refusal = "not between the uses of \"table\", which is changed in place by \"add_\"";
  }
  FormOptions options;
  const Result<Formation> formed = form_clusters(costs, equal_pool(3, 8, 10), options);
  ASSERT_FALSE(formed.ok());
  EXPECT_THAT(formed.status().message(), HasSubstr("at most 1 stage"));
  EXPECT_THAT(formed.status().message(), HasSubstr("from \"op_0\" (layer_0) to \"op_2\" (layer_2)"));
  EXPECT_THAT(formed.status().message(), HasSubstr("not between the uses of \"table\""));
}

}  // namespace
}  // namespace ravnest::plan
