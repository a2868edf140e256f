#include <gmock/gmock.h>

#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::ir {
namespace {

using archive::testing::float_payload;
using testing::affine;
using ::testing::HasSubstr;
using testing::holder;
using testing::ModelBuilder;

TEST(Merge, TheEvalGraphOfTheSecondRunsOnTheWeightsOfTheFirst) {
  Model eval = affine(float_payload({2}, {0, 0}));
  eval.eval.operators.back().target = "torch.ops.aten.sub.Tensor";
  const Result<Model> merged = merge_captures(affine(), eval);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->train.operators.back().target, "torch.ops.aten.add.Tensor");
  EXPECT_EQ(merged->eval.operators.back().target, "torch.ops.aten.sub.Tensor");
  EXPECT_EQ(archive::testing::elements(*find_payload(*merged, "fc.w", InputKind::kParameter, true)),
            archive::testing::elements(float_payload({2}, {3, 4})));
}

TEST(Merge, CapturesOfDifferentModulesAreRefusedByTheWeightThatDiffers) {
  const Status status = merge_captures(affine(), holder({{"fc.v", float_payload({2}, {1, 2})}})).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("\"fc.v\" differs between training and eval"));
}

Model with_constant(std::vector<float> values) {
  ModelBuilder builder;
  const auto size = static_cast<std::int64_t>(values.size());
  const Ref c = builder.constant("lifted_0", float_payload({size}, std::move(values)));
  return builder.returns({c});
}

TEST(Merge, AConstantOfTheSameNameButOtherContentsGetsANameOfItsOwn) {
  const Result<Model> merged = merge_captures(with_constant({1}), with_constant({2}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_EQ(merged->constants.size(), 2U);
  EXPECT_EQ(merged->train.inputs[0].target, "lifted_0");
  EXPECT_EQ(merged->eval.inputs[0].target, "eval_lifted_0");
}

TEST(Merge, AConstantOfTheSameContentsIsKeptOnce) {
  EXPECT_EQ(merge_captures(with_constant({1}), with_constant({1})).value().constants.size(), 1U);
  EXPECT_EQ(merge_captures(with_constant({}), with_constant({})).value().constants.size(), 1U);
}

}  // namespace
}  // namespace ravnest::ir
