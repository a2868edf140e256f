#include "ravnest/optim/clip.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>

#include <cmath>
#include <vector>

namespace ravnest::optim {
namespace {

// Lists of one device and dtype, in the order in which torch's own clipping goes through them.
std::vector<std::vector<at::Tensor>> sorted(std::span<const at::Tensor> gradients) {
  std::vector<at::Tensor> all;
  bool alike = true;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    all.push_back(gradient.detach());
    alike = alike && all.front().device() == gradient.device() && all.front().scalar_type() == gradient.scalar_type();
  }
  if (all.empty()) return {};
  if (alike) return {std::move(all)};
  std::vector<std::vector<at::Tensor>> lists;
  const at::native::nested_optional_tensorvec_t nested{{all.begin(), all.end()}};
  for (const auto& [key, grouped] : at::native::_group_tensors_by_first_tensors_device_and_dtype(nested, false)) {
    std::vector<at::Tensor>& list = lists.emplace_back();
    for (const std::optional<at::Tensor>& gradient : grouped.first.front()) list.push_back(*gradient);
  }
  return lists;
}

c10::Device first_device(std::span<const at::Tensor> gradients) {
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) return gradient.device();
  }
  return c10::kCPU;
}

}  // namespace

at::Tensor gradient_norm(std::span<const at::Tensor> gradients, double norm_type) {
  const at::NoGradGuard no_grad;
  const c10::Device device = first_device(gradients);
  std::vector<at::Tensor> norms;
  for (const std::vector<at::Tensor>& list : sorted(gradients)) {
    for (const at::Tensor& norm : at::_foreach_norm(list, norm_type)) norms.push_back(norm.to(device));
  }
  if (norms.empty()) return at::zeros({}, at::kFloat);
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

void scale_to_norm(std::span<const at::Tensor> gradients, double max_norm, const at::Tensor& total_norm) {
  const at::NoGradGuard no_grad;
  // The reciprocal first: that is how Python divides a number by a tensor. Multiplying by one where nothing is to be
  // done spares a wait for the device.
  const at::Tensor limit = at::native::wrapped_scalar_tensor(max_norm);
  const at::Tensor factor = (total_norm + 1e-6).reciprocal().mul(limit).clamp_max(1.0);
  for (const std::vector<at::Tensor>& list : sorted(gradients))
    at::_foreach_mul_(list, factor.to(list.front().device()));
}

Result<at::Tensor> clip_by_norm(std::span<const at::Tensor> gradients, const NormLimit& limit) {
  at::Tensor norm = gradient_norm(gradients, limit.norm_type);
  if (limit.error_if_nonfinite && !std::isfinite(norm.item<double>()))
    return invalid("the gradients' norm is ", norm.item<double>(), ", so they cannot be clipped to it");
  scale_to_norm(gradients, limit.max_norm, norm);
  return norm;
}

void clip_by_value(std::span<const at::Tensor> gradients, double limit) {
  const at::NoGradGuard no_grad;
  for (const std::vector<at::Tensor>& list : sorted(gradients)) {
    at::_foreach_clamp_min_(list, -limit);
    at::_foreach_clamp_max_(list, limit);
  }
}

}  // namespace ravnest::optim
