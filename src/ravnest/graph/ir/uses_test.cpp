#include "ravnest/graph/ir/uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::ir {
namespace {

using archive::testing::float_payload;
using ::testing::ElementsAre;
using testing::fixed;
using ::testing::IsEmpty;
using testing::ModelBuilder;
using ::testing::Pair;

const testing::Sizes kSizes = {fixed(2)};

archive::Payload weight() {
  archive::Payload payload = float_payload({2}, {1, 2});
  payload.is_parameter = payload.requires_grad = true;
  return payload;
}

Ref times(ModelBuilder& builder, const std::string& name, Ref x, Ref w) {
  return builder.call(name, "torch.ops.aten.mul.Tensor", {{"self", x}, {"other", w}}, kSizes);
}

// A stage of four operators, the first of which is at `first` in the whole model. "scale" is used twice.
Model stage(int index, int first) {
  ModelBuilder builder;
  const Ref scale = builder.parameter("scale", weight());
  const Ref shift = builder.parameter("shift", weight());
  const Ref mean = builder.buffer("mean", float_payload({2}, {0, 0}));
  const Ref x = builder.input("x", kSizes);
  const Ref a = times(builder, "a", x, mean);
  const Ref b = times(builder, "b", a, scale);
  const Ref c = times(builder, "c", times(builder, "d", b, shift), scale);
  Model model = builder.returns({c});
  for (Operator& op : model.train.operators) op.place += first;
  model.stage = StageInfo{index, 3, {}, {}, {}};
  model.stage->state_dict = {"scale", "shift", "mean"};
  return model;
}

TEST(FirstUses, ArePlacesInTheWholeModel) {
  EXPECT_THAT(first_uses(stage(1, 20)), ElementsAre(Pair("scale", 21), Pair("shift", 22), Pair("mean", 20)));
}

TEST(FirstUses, SurviveTheArchive) {
  Model written = stage(1, 20);
  written.stage->train = written.stage->eval = {{{0, 0}}, {{2}}};
  const Result<Model> read = testing::read_back(testing::bytes_of(written).value());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(first_uses(*read), first_uses(stage(1, 20)));
}

TEST(FirstUses, OfAWholeModelCountFromItsFirstOperator) {
  Model whole = stage(0, 0);
  whole.stage.reset();
  EXPECT_THAT(first_uses(whole), ElementsAre(Pair("scale", 1), Pair("shift", 2), Pair("mean", 0)));
}

TEST(FirstUses, TheOrderIsThatOfTheWholeModelsStateDict) {
  Model model = stage(1, 20);
  model.stage->state_dict = {"mean", "elsewhere", "shift", "scale"};
  EXPECT_THAT(first_uses(model), ElementsAre(Pair("mean", 20), Pair("shift", 22), Pair("scale", 21)));
}

TEST(FirstUses, ATiedWeightIsListedByTheStageThatKeepsItAlone) {
  Model keeper = stage(1, 20);
  keeper.stage->tied["scale"] = {1, 2};
  EXPECT_THAT(first_uses(keeper), ElementsAre(Pair("scale", 21), Pair("shift", 22), Pair("mean", 20)));
  Model user = stage(2, 40);
  user.stage->tied["scale"] = {1, 2};
  EXPECT_THAT(first_uses(user), ElementsAre(Pair("shift", 42), Pair("mean", 40)));
}

TEST(FirstUses, OneUnderAnotherNameCountsForAllNamesOfATensor) {
  ModelBuilder builder;
  const archive::Payload shared = weight();
  const Ref head = builder.parameter("head", shared);
  const Ref body = builder.parameter("body", weight());
  builder.parameter("embed", shared);
  const Ref x = builder.input("x", kSizes);
  const Model model = builder.returns({times(builder, "b", times(builder, "a", x, body), head)});
  EXPECT_THAT(first_uses(model), ElementsAre(Pair("head", 1), Pair("body", 0), Pair("embed", 1)));
}

TEST(FirstUses, AWeightThatNoOperatorUsesGoesWithTheOneBeforeIt) {
  ModelBuilder builder;
  builder.parameter("idle_0", weight());
  const Ref a = builder.parameter("a", weight());
  builder.parameter("idle_1", weight());
  const Ref x = builder.input("x", kSizes);
  Model model = builder.returns({times(builder, "b", times(builder, "first", x, x), a)});
  EXPECT_THAT(first_uses(model), ElementsAre(Pair("idle_0", 0), Pair("a", 1), Pair("idle_1", 1)));
  // In a later stage: what its eval graph alone uses, and the name before it is not here, is kept by another stage.
  model.stage = StageInfo{1, 2, {}, {}, {}};
  model.stage->state_dict = {"elsewhere", "idle_0", "a", "idle_1"};
  EXPECT_THAT(first_uses(model), ElementsAre(Pair("a", 1), Pair("idle_1", 1)));
}

TEST(FirstUses, AWeightThatIsReturnedAsItIsLiesBehindAllOperators) {
  ModelBuilder builder;
  const Ref w = builder.parameter("w", weight());
  const Ref x = builder.input("x", kSizes);
  const Ref y = times(builder, "y", x, x);
  EXPECT_THAT(first_uses(builder.returns({y, w})), ElementsAre(Pair("w", kReturned)));
}

TEST(FirstUses, BuffersBesideTheStateDictAreListedToo) {
  ModelBuilder builder;
  const Ref count = builder.buffer("count", float_payload({2}, {0, 0}), false);
  const Ref three = builder.constant("three", float_payload({2}, {3, 3}));
  const Ref x = builder.input("x", kSizes);
  const Model model = builder.returns({times(builder, "b", times(builder, "a", x, three), count)});
  EXPECT_THAT(first_uses(model), ElementsAre(Pair("count", 1))) << "a constant is neither parameter nor buffer";
}

TEST(FirstUses, AStageWithoutTensorsHasNone) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kSizes);
  EXPECT_THAT(first_uses(builder.returns({times(builder, "a", x, x)})), IsEmpty());
}

}  // namespace
}  // namespace ravnest::ir
