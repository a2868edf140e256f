// Losses by name, for leaves that have no Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "ravnest/base/status.h"

namespace ravnest::train {

// One number, differentiable by autograd. Safe from any thread. What torch cannot compute (shapes that do not fit,
// targets of the wrong type) passes through as its exception.
using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

// The function of torch.nn.functional with its default arguments, to the bit on the CPU. Names are those of
// loss_name.h. As there, mse, l1, smooth_l1 and huber broadcast targets of other sizes (without its warning), and bce
// and bce_with_logits refuse them.
//
// One exception: cross_entropy takes outputs [N, ..., C] of three dimensions or more with classes [N, ...], as language
// models have them, and computes as if all dimensions but the last were one. torch.nn.functional itself wants the
// classes second, [N, C, ...]; such outputs are taken as it takes them, unless both readings fit (C equal to the
// dimensions that it would be confused with), where the classes are last. Targets that are probabilities are always
// read as torch.nn.functional does, with the classes second.
Result<Loss> make_loss(std::string_view name);

// How many predictions are right, and of how many: the largest of the last dimension against the target. Targets are
// classes, in the output's shape without its last dimension (-100, which cross_entropy ignores, does not count), or
// one-hot in the output's shape. (0, 0) where that makes no sense: other shapes, fewer than two classes, targets that
// are neither.
std::pair<std::uint64_t, std::uint64_t> correct_of(const at::Tensor& output, const at::Tensor& target);

}  // namespace ravnest::train
