#include "ravnest/graph/cut/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::graph {
namespace {

using archive::testing::float_payload;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::fixed;
using ir::testing::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// So many linear layers of 8 x 8, 256 bytes each, with an activation behind each: operators 2k and 2k + 1, recorded in
// the module "net.blocks.k".
ir::Model tower(int layers) {
  ModelBuilder builder;
  const ir::testing::Sizes sizes = {dynamic("s0"), fixed(8)};
  Ref x = builder.input("x", sizes);
  for (int k = 0; k < layers; ++k) {
    const std::string name = std::to_string(k);
    archive::Payload weight = float_payload({8, 8}, std::vector<float>(64, 0.1F));
    weight.is_parameter = weight.requires_grad = true;
    const Ref w = builder.parameter("net.blocks." + name + ".w", std::move(weight));
    x = builder.call("a" + name, "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, sizes);
    x = builder.call("b" + name, "torch.ops.aten.tanh.default", {{"self", x}}, sizes);
  }
  ir::Model model = builder.returns({x});
  for (std::size_t i = 0; i < model.train.operators.size(); ++i) {
    const std::string path = "net.blocks." + std::to_string(i / 2) + ".fc";
    model.train.operators[i].module_stack = "L__self__,,;L['self']." + path + "," + path + ",Linear";
  }
  return model;
}

TEST(Units, AreAsManyAsHaveTheLeastSizeButNoMoreThanTheMost) {
  const ir::Model model = tower(8);
  EXPECT_THAT(unit_cuts(model).value(), IsEmpty()) << "2 KiB are one unit";
  EXPECT_THAT(unit_cuts(model, {.least_bytes = 1024}).value(), SizeIs(1));
  EXPECT_THAT(unit_cuts(model, {.most_units = 4, .least_bytes = 1}).value(), SizeIs(3));
  EXPECT_THAT(unit_cuts(model, {.most_units = 2, .least_bytes = 1, .most_bytes = 256}).value(), SizeIs(7))
      << "none is larger than it may be, even if they are many";
}

TEST(Units, AreOfLikeSizeAndCutBehindTheActivation) {
  EXPECT_THAT(unit_cuts(tower(8), {.most_units = 4, .least_bytes = 1}).value(), ElementsAre(4, 8, 12));
}

TEST(Units, AreCutWhereFewestBytesCross) {
  ir::Model model = tower(4);
  // The middle is made expensive: what the second block hands on is eight times as wide as what its layer makes.
  ir::Value& wide =
      model.train.values[static_cast<std::size_t>(std::get<Ref>(model.train.operators[3].outputs[0]).value)];
  wide.tensor.dtype = DType::kFloat64;
  EXPECT_THAT(unit_cuts(model, {.most_units = 2, .least_bytes = 1}).value(), ElementsAre(3));
}

TEST(Units, BlocksBeginWhereTheNumberInTheModulesPathChanges) {
  EXPECT_THAT(unit_cuts(tower(3), {.rule = UnitRule::kBlocks}).value(), ElementsAre(2, 4));
}

TEST(Units, AModelThatCanNotBeCutIsOneUnit) {
  ModelBuilder builder;
  const ir::testing::Sizes sizes = {dynamic("s0"), fixed(2)};
  const Ref w = builder.parameter("w", {2, 2}, {1, 2, 3, 4});
  const Ref x = builder.input("x", sizes);
  const Ref a = builder.call("a", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, sizes);
  const Ref b = builder.call("b", "torch.ops.aten.relu_.default", {{"self", a}}, sizes);
  const ir::Model model = builder.returns({b});
  EXPECT_THAT(unit_cuts(model, {.least_bytes = 1}).value(), IsEmpty());
}

}  // namespace
}  // namespace ravnest::graph
