#include "ravnest/graph/cost/flops.h"

#include <gtest/gtest.h>

namespace ravnest::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

// One call, put together by hand: each tensor gets the next value.
class Sketch {
 public:
  explicit Sketch(std::string target) { op_.target = "torch.ops.aten." + std::move(target); }

  Sketch& tensor(const std::string& name, Sizes sizes, bool needs_gradient = true) {
    op_.inputs.push_back({name, add(std::move(sizes), needs_gradient)});
    return *this;
  }
  Sketch& tensors(const std::string& name, const std::vector<Sizes>& all) {
    std::vector<ir::Ref> refs;
    for (const Sizes& sizes : all) refs.push_back(add(sizes, true));
    op_.inputs.push_back({name, std::move(refs)});
    return *this;
  }
  Sketch& with(const std::string& name, ir::Argument value) {
    op_.inputs.push_back({name, std::move(value)});
    return *this;
  }
  Sketch& gives(Sizes sizes) {
    op_.outputs.emplace_back(add(std::move(sizes), true));
    return *this;
  }

  std::int64_t forward() const { return forward_flops(ShapedOperator(op_, shapes_)); }
  std::int64_t backward() const { return backward_flops(ShapedOperator(op_, shapes_), needs_gradient_); }

 private:
  ir::Ref add(Sizes sizes, bool needs_gradient) {
    Shape& shape = shapes_.emplace_back();
    shape.strides.assign(sizes.size(), 1);
    shape.sizes = std::move(sizes);
    needs_gradient_.push_back(needs_gradient);
    return {static_cast<ir::ValueId>(shapes_.size()) - 1};
  }

  ir::Operator op_;
  Shapes shapes_;
  std::vector<bool> needs_gradient_;
};

TEST(Flops, LinearIsTwoPerWeightAndRow) {
  const Sketch op = Sketch("linear.default").tensor("input", {4, 7, 5}).tensor("weight", {3, 5}).gives({4, 7, 3});
  EXPECT_EQ(op.forward(), 2 * 4 * 7 * 5 * 3);
  EXPECT_EQ(op.backward(), 2 * op.forward());
}

TEST(Flops, ProductsOfMatrices) {
  EXPECT_EQ(Sketch("mm.default").tensor("self", {4, 5}).tensor("mat2", {5, 6}).gives({4, 6}).forward(), 240);
  EXPECT_EQ(
      Sketch("addmm.default").tensor("self", {6}).tensor("mat1", {4, 5}).tensor("mat2", {5, 6}).gives({4, 6}).forward(),
      240);
  EXPECT_EQ(Sketch("bmm.default").tensor("self", {3, 4, 5}).tensor("mat2", {3, 5, 6}).gives({3, 4, 6}).forward(), 720);
  EXPECT_EQ(Sketch("baddbmm.default")
                .tensor("self", {3, 4, 6})
                .tensor("batch1", {3, 4, 5})
                .tensor("batch2", {3, 5, 6})
                .gives({3, 4, 6})
                .forward(),
            720);
  EXPECT_EQ(
      Sketch("matmul.default").tensor("self", {2, 1, 4, 5}).tensor("other", {3, 5, 6}).gives({2, 3, 4, 6}).forward(),
      2 * 3 * 240);
}

TEST(Flops, AnOperandWithoutGradientSavesItsShareOfBackward) {
  const Sketch op = Sketch("linear.default").tensor("input", {4, 5}, false).tensor("weight", {3, 5}).gives({4, 3});
  EXPECT_EQ(op.backward(), op.forward());
  EXPECT_EQ(Sketch("relu.default").tensor("self", {4, 5}, false).gives({4, 5}).backward(), 0);
}

TEST(Flops, ConvolutionCountsItsWindowOverTheGroupsChannels) {
  EXPECT_EQ(Sketch("conv2d.default")
                .tensor("input", {2, 6, 8, 8})
                .tensor("weight", {4, 6, 3, 3})
                .gives({2, 4, 8, 8})
                .forward(),
            2 * (2 * 4 * 8 * 8) * (6 * 3 * 3));
  EXPECT_EQ(Sketch("conv2d.padding")
                .tensor("input", {2, 6, 8, 8})
                .tensor("weight", {4, 3, 3, 3})
                .with("groups", std::int64_t{2})
                .gives({2, 4, 8, 8})
                .forward(),
            2 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
  EXPECT_EQ(Sketch("conv1d.default").tensor("input", {2, 6, 10}).tensor("weight", {4, 6, 3}).gives({2, 4, 8}).forward(),
            2 * (2 * 4 * 8) * (6 * 3));
  EXPECT_EQ(Sketch("conv3d.default")
                .tensor("input", {1, 2, 4, 4, 4})
                .tensor("weight", {3, 2, 2, 2, 2})
                .gives({1, 3, 3, 3, 3})
                .forward(),
            2 * (3 * 27) * (2 * 8));
}

TEST(Flops, TransposedConvolutionCountsFromItsInput) {
  EXPECT_EQ(Sketch("conv_transpose2d.input")
                .tensor("input", {2, 6, 4, 4})
                .tensor("weight", {6, 3, 2, 2})
                .gives({2, 3, 8, 8})
                .forward(),
            2 * (2 * 6 * 4 * 4) * (3 * 2 * 2));
  EXPECT_EQ(Sketch("_convolution.default")
                .tensor("input", {2, 6, 4, 4})
                .tensor("weight", {6, 3, 2, 2})
                .with("transposed", true)
                .gives({2, 3, 8, 8})
                .forward(),
            2 * (2 * 6 * 4 * 4) * (3 * 2 * 2));
}

TEST(Flops, AttentionIsItsTwoProducts) {
  const Sketch op = Sketch("scaled_dot_product_attention.default")
                        .tensor("query", {2, 4, 10, 16})
                        .tensor("key", {2, 4, 12, 16})
                        .tensor("value", {2, 4, 12, 8})
                        .gives({2, 4, 10, 8});
  EXPECT_EQ(op.forward(), 2 * (2 * 4) * 10 * 12 * (16 + 8));
  EXPECT_EQ(op.backward(), op.forward() * 5 / 2);
}

TEST(Flops, EinsumMultipliesOverAllItsLabels) {
  EXPECT_EQ(Sketch("einsum.default")
                .with("equation", std::string("bik,bkj->bij"))
                .tensors("tensors", {{3, 4, 5}, {3, 5, 6}})
                .gives({3, 4, 6})
                .forward(),
            720);
  EXPECT_EQ(Sketch("einsum.default")
                .with("equation", std::string("...i, ij -> ...j"))
                .tensors("tensors", {{2, 3, 4}, {4, 5}})
                .gives({2, 3, 5})
                .forward(),
            2 * 2 * 3 * 4 * 5);
  // (ab,bc) first: 2*3*4; then (ac,cd): 2*4*5, b being summed.
  EXPECT_EQ(Sketch("einsum.default")
                .with("equation", std::string("ab,bc,cd->ad"))
                .tensors("tensors", {{2, 3}, {3, 4}, {4, 5}})
                .gives({2, 5})
                .forward(),
            2 * (24 + 40));
}

TEST(Flops, ARecurrentLayerMultipliesEveryWeightAtEveryStep) {
  EXPECT_EQ(Sketch("lstm.input")
                .tensor("input", {2, 9, 5})
                .tensors("params", {{24, 5}, {24, 6}, {24}, {24}})
                .gives({2, 9, 6})
                .forward(),
            2 * (2 * 9) * (24 * 5 + 24 * 6));
}

TEST(Flops, SmallArithmeticIsSmallAndViewsAreFree) {
  EXPECT_EQ(Sketch("relu_.default").tensor("self", {4, 5}).gives({4, 5}).forward(), 20);
  EXPECT_EQ(Sketch("layer_norm.default").tensor("input", {4, 5}).gives({4, 5}).forward(), 100);
  EXPECT_EQ(Sketch("max_pool2d.default")
                .tensor("self", {1, 2, 8, 8})
                .with("kernel_size", Sizes{3, 3})
                .gives({1, 2, 4, 4})
                .forward(),
            32 * 9);
  EXPECT_EQ(Sketch("embedding.default").tensor("weight", {9, 5}).tensor("indices", {4}).gives({4, 5}).forward(), 0);
  EXPECT_EQ(Sketch("transpose.int").tensor("self", {4, 5}).gives({5, 4}).forward(), 0);
}

}  // namespace
}  // namespace ravnest::graph
