#include "ravnest/graph/operators/sizes.h"

#include <gtest/gtest.h>

namespace ravnest::graph {
namespace {

TEST(Sizes, ATransposedTensorIsViewedOnlyWithinWhatLiesTogether) {
  const Shape transposed{DType::kFloat32, {2, 3, 4, 5}, {60, 5, 15, 1}};  // (2, 4, 3, 5) with the middle swapped
  EXPECT_FALSE(transposed.contiguous());
  EXPECT_FALSE(viewable(transposed, {6, 4, 5}));
  EXPECT_TRUE(viewable(transposed, {2, 3, 2, 2, 5}));
  EXPECT_TRUE(viewable(transposed, {2, 3, 1, 4, 5}));
}

TEST(Sizes, AContiguousTensorIsViewedWithAnySizes) {
  const Shape shape{DType::kFloat32, {2, 3, 4}, {12, 4, 1}};
  EXPECT_TRUE(shape.contiguous());
  EXPECT_TRUE(viewable(shape, {24}));
  EXPECT_TRUE(viewable(shape, {4, 6}));
  EXPECT_EQ(shape.bytes(), 96);
}

TEST(Sizes, DimensionsOfOneHaveAnyStride) { EXPECT_TRUE((Shape{DType::kFloat32, {2, 1, 4}, {4, 77, 1}}.contiguous())); }

TEST(Sizes, ShapesFollowTheSymbolsAndFallBackOnTheCapture) {
  ir::Graph graph;
  ir::Value& value = graph.values.emplace_back();
  value.tensor.sizes = {{8, ir::symbol_text("s0")}, {3, ""}, {16, "Mul(Integer(2), " + ir::symbol_text("s0") + ")"}};
  value.tensor.strides = {{48, "Mul(Integer(6), " + ir::symbol_text("s0") + ")"}, {16, "nonsense("}, {1, ""}};
  const Shapes captured = evaluate_shapes(graph, symbol_values(graph, {}));
  EXPECT_EQ(captured[0].sizes, (std::vector<std::int64_t>{8, 3, 16}));
  const Shapes other = evaluate_shapes(graph, symbol_values(graph, {{"s0", 5}}));
  EXPECT_EQ(other[0].sizes, (std::vector<std::int64_t>{5, 3, 10}));
  EXPECT_EQ(other[0].strides, (std::vector<std::int64_t>{30, 16, 1}));
}

}  // namespace
}  // namespace ravnest::graph
