#include "ravnest/graph/operators/operator_sets.h"

#include <array>
#include <unordered_map>
#include <unordered_set>

namespace ravnest::graph {

bool moves_data_only(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {"view",
                                                              "_unsafe_view",
                                                              "reshape",
                                                              "view_as",
                                                              "reshape_as",
                                                              "flatten",
                                                              "unflatten",
                                                              "transpose",
                                                              "t",
                                                              "permute",
                                                              "movedim",
                                                              "swapaxes",
                                                              "numpy_T",
                                                              "matrix_H",
                                                              "mT",
                                                              "mH",
                                                              "adjoint",
                                                              "unsqueeze",
                                                              "squeeze",
                                                              "expand",
                                                              "expand_as",
                                                              "broadcast_to",
                                                              "repeat",
                                                              "repeat_interleave",
                                                              "tile",
                                                              "slice",
                                                              "select",
                                                              "narrow",
                                                              "split",
                                                              "split_with_sizes",
                                                              "chunk",
                                                              "unsafe_chunk",
                                                              "tensor_split",
                                                              "unbind",
                                                              "index",
                                                              "index_select",
                                                              "gather",
                                                              "index_put",
                                                              "scatter",
                                                              "masked_select",
                                                              "take",
                                                              "take_along_dim",
                                                              "cat",
                                                              "concat",
                                                              "stack",
                                                              "hstack",
                                                              "vstack",
                                                              "flip",
                                                              "roll",
                                                              "rot90",
                                                              "pad",
                                                              "constant_pad_nd",
                                                              "reflection_pad2d",
                                                              "replication_pad2d",
                                                              "pixel_shuffle",
                                                              "pixel_unshuffle",
                                                              "channel_shuffle",
                                                              "unfold",
                                                              "im2col",
                                                              "contiguous",
                                                              "clone",
                                                              "copy",
                                                              "to",
                                                              "_to_copy",
                                                              "type_as",
                                                              "detach",
                                                              "alias",
                                                              "lift_fresh_copy",
                                                              "fill",
                                                              "zero",
                                                              "zeros",
                                                              "ones",
                                                              "full",
                                                              "empty",
                                                              "arange",
                                                              "linspace",
                                                              "eye",
                                                              "zeros_like",
                                                              "ones_like",
                                                              "full_like",
                                                              "empty_like",
                                                              "new_zeros",
                                                              "new_ones",
                                                              "new_full",
                                                              "new_empty",
                                                              "scalar_tensor",
                                                              "one_hot",
                                                              "tril",
                                                              "triu",
                                                              "diagonal",
                                                              "diag_embed",
                                                              "as_strided",
                                                              "real",
                                                              "imag",
                                                              "view_as_real",
                                                              "view_as_complex",
                                                              "sym_size",
                                                              "sym_numel",
                                                              "sym_stride",
                                                              "item",
                                                              "masked_fill",
                                                              "where"};
  return kNames.contains(name);
}

bool stops_gradient(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {
      "detach",    "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like",
      "new_zeros", "new_ones",   "new_full",  "new_empty", "bernoulli",  "argmax",    "argmin",     "one_hot"};
  return kNames.contains(name);
}

std::vector<ir::ValueId> product_operands(const ShapedOperator& op) {
  using Names = std::array<std::string_view, 2>;
  static const std::unordered_map<std::string_view, Names> kOperands = {
      {"linear", {"input", "weight"}},
      {"mm", {"self", "mat2"}},
      {"bmm", {"self", "mat2"}},
      {"mv", {"self", "vec"}},
      {"matmul", {"self", "other"}},
      {"inner", {"self", "other"}},
      {"dot", {"self", "tensor"}},
      {"vdot", {"self", "other"}},
      {"addmm", {"mat1", "mat2"}},
      {"addbmm", {"batch1", "batch2"}},
      {"baddbmm", {"batch1", "batch2"}},
      {"conv1d", {"input", "weight"}},
      {"conv2d", {"input", "weight"}},
      {"conv3d", {"input", "weight"}},
      {"conv_transpose1d", {"input", "weight"}},
      {"conv_transpose2d", {"input", "weight"}},
      {"conv_transpose3d", {"input", "weight"}},
      {"convolution", {"input", "weight"}},
      {"_convolution", {"input", "weight"}},
      {"mul", {"self", "other"}},
  };
  if (op.name() == "einsum") return op.values("tensors");
  if (op.name() == "bilinear") return {op.value("input1"), op.value("input2"), op.value("weight")};
  const std::vector<ir::ValueId> weights = op.values("params");
  if (!weights.empty() && op.value("input") >= 0) return {op.value("input"), weights.front()};
  const auto found = kOperands.find(op.name());
  if (found == kOperands.end()) return {};
  return {op.value(found->second[0]), op.value(found->second[1])};
}

}  // namespace ravnest::graph
