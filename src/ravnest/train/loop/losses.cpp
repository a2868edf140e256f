#include "ravnest/train/loop/losses.h"

#include <ATen/ATen.h>

#include <vector>

#include "ravnest/train/config/loss_name.h"

namespace ravnest::train {
namespace {

constexpr std::int64_t kIgnored = -100;

bool are_classes(const at::Tensor& target) { return at::isIntegralType(target.scalar_type(), /*includeBool=*/false); }

// Whether the target has the output's sizes but for the last.
bool lacks_the_last_size(const at::Tensor& output, const at::Tensor& target) {
  return output.dim() > 0 && target.sizes() == output.sizes().slice(0, static_cast<std::size_t>(output.dim() - 1));
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  if (output.dim() > 2 && are_classes(target) && lacks_the_last_size(output, target))
    return at::cross_entropy_loss(output.reshape({-1, output.size(-1)}), target.reshape({-1}));
  return at::cross_entropy_loss(output, target);
}

bool is_one_hot(const at::Tensor& target) {
  const at::Tensor ones = target.eq(1);
  return at::logical_or(ones, target.eq(0)).all().item<bool>() && ones.sum(-1).eq(1).all().item<bool>();
}

std::uint64_t count(const at::Tensor& flags) { return static_cast<std::uint64_t>(flags.sum().item<std::int64_t>()); }

using Function = at::Tensor (*)(const at::Tensor& output, const at::Tensor& target);

// Expanded before, not within, the loss: only so does the gradient come back in the sizes of the output.
template <Function loss>
at::Tensor broadcast(const at::Tensor& output, const at::Tensor& target) {
  const std::vector<at::Tensor> expanded = at::broadcast_tensors({output, target});
  return loss(expanded[0], expanded[1]);
}

template <Function loss>
at::Tensor same_sizes(const at::Tensor& output, const at::Tensor& target) {
  TORCH_CHECK(output.sizes() == target.sizes(), "the target's sizes ", target.sizes(), " have to be the output's, ",
              output.sizes());
  return loss(output, target);
}

at::Tensor mse(const at::Tensor& output, const at::Tensor& target) { return at::mse_loss(output, target); }
at::Tensor l1(const at::Tensor& output, const at::Tensor& target) { return at::l1_loss(output, target); }
at::Tensor smooth_l1(const at::Tensor& output, const at::Tensor& target) { return at::smooth_l1_loss(output, target); }
at::Tensor huber(const at::Tensor& output, const at::Tensor& target) { return at::huber_loss(output, target); }
at::Tensor nll(const at::Tensor& output, const at::Tensor& target) { return at::nll_loss_nd(output, target); }
at::Tensor bce(const at::Tensor& output, const at::Tensor& target) { return at::binary_cross_entropy(output, target); }
at::Tensor bce_with_logits(const at::Tensor& output, const at::Tensor& target) {
  return at::binary_cross_entropy_with_logits(output, target);
}
at::Tensor kl_div(const at::Tensor& output, const at::Tensor& target) { return at::kl_div(output, target); }

Function function_of(LossKind kind) {
  switch (kind) {
    case LossKind::kMse: return broadcast<mse>;
    case LossKind::kL1: return broadcast<l1>;
    case LossKind::kSmoothL1: return broadcast<smooth_l1>;
    case LossKind::kHuber: return broadcast<huber>;
    case LossKind::kCrossEntropy: return cross_entropy;
    case LossKind::kNll: return nll;
    case LossKind::kBce: return same_sizes<bce>;
    case LossKind::kBceWithLogits: return same_sizes<bce_with_logits>;
    case LossKind::kKlDiv: return kl_div;
  }
  TORCH_CHECK(false, "unknown loss");
}

}  // namespace

Result<Loss> make_loss(std::string_view name) {
  const Result<LossKind> kind = parse_loss(name);
  if (!kind.ok()) return kind.status();
  return Loss(function_of(*kind));
}

std::pair<std::uint64_t, std::uint64_t> correct_of(const at::Tensor& output, const at::Tensor& target) {
  if (output.dim() == 0 || output.size(-1) < 2 || output.numel() == 0 || output.is_complex()) return {0, 0};
  at::Tensor classes = target;
  if (target.sizes() == output.sizes() && is_one_hot(target)) {
    classes = target.to(at::kByte).argmax(-1);
  } else if (!are_classes(target) || !lacks_the_last_size(output, target)) {
    return {0, 0};
  }
  return {count(output.argmax(-1).eq(classes)), count(classes.ne(kIgnored))};
}

}  // namespace ravnest::train
