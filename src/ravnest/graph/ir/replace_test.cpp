#include "ravnest/graph/ir/replace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::ir {
namespace {

using testing::HasSubstr;

Model model_of(int inputs, int outputs) {
  Model model;
  for (Graph* graph : {&model.train, &model.eval}) {
    graph->inputs.push_back(Input{InputKind::kParameter, 0, "w", true, {}});
    for (int i = 0; i < inputs; ++i) graph->inputs.push_back(Input{InputKind::kUser, i + 1, "", true, {}});
    graph->outputs.resize(static_cast<std::size_t>(outputs));
  }
  model.weights.emplace_back("w", archive::Payload());
  return model;
}

Model planned() {
  Model model = model_of(2, 1);
  const Routing routing{{{0, 0}, {-1, 1}}, {{2}}};
  model.stage = StageInfo{1, 3, routing, routing, {}};
  return model;
}

TEST(ReplacedStage, TakesThePlaceOfThePlannedOne) {
  Model own = model_of(2, 1);
  own.weights.front().first = "mine";
  const auto replaced = replaced_stage(planned(), own);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->stage->index, 1);
  EXPECT_EQ(replaced->stage->train.inputs, planned().stage->train.inputs);
  EXPECT_EQ(replaced->weights.front().first, "mine");
}

TEST(ReplacedStage, HasToTakeAndReturnAsMuch) {
  EXPECT_THAT(replaced_stage(planned(), model_of(1, 1)).status().message(),
              HasSubstr("takes 2 tensors in training, the given model 1"));
  EXPECT_THAT(replaced_stage(planned(), model_of(2, 3)).status().message(),
              HasSubstr("returns 1 tensors in training, the given model 3"));
}

TEST(ReplacedStage, NeedsTheWeightsThatOthersShare) {
  Model tied = planned();
  tied.stage->tied["embedding"] = {0, 1};
  EXPECT_THAT(replaced_stage(tied, model_of(2, 1)).status().message(), HasSubstr("no weight \"embedding\""));
}

TEST(ReplacedStage, IsForStagesAlone) { EXPECT_FALSE(replaced_stage(model_of(2, 1), model_of(2, 1)).ok()); }

}  // namespace
}  // namespace ravnest::ir
