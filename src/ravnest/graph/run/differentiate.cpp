#include "ravnest/graph/run/differentiate.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

namespace ravnest::graph {

using at::Tensor;

Tensor detached(const Tensor& value, bool takes_gradient) {
  return takes_gradient ? value.detach().set_requires_grad(true) : value;
}

std::vector<Tensor> tensors_of(const std::vector<c10::IValue>& values) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& value : values) tensors.push_back(value.isTensor() ? value.toTensor() : Tensor());
  return tensors;
}

void Roots::add_loss(const Tensor& loss) {
  if (!loss.requires_grad()) return;
  tensors_.push_back(loss);
  gradients_.emplace_back();
}

void Roots::add(const Tensor& tensor, const Tensor& gradient) {
  if (!gradient.defined() || !tensor.requires_grad()) return;
  tensors_.push_back(tensor);
  gradients_.push_back(gradient);
}

std::vector<Tensor> Roots::gradients_of(const std::vector<Tensor>& sources) {
  const std::vector<Tensor> tensors = std::move(tensors_);
  const std::vector<Tensor> gradients = std::move(gradients_);
  tensors_.clear();
  gradients_.clear();
  if (tensors.empty() || sources.empty()) return std::vector<Tensor>(sources.size());
  return torch::autograd::grad(tensors, sources, gradients, /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

bool is_own_gradient(const Tensor& gradient, const Tensor& parameter) {
  const bool alone = gradient.use_count() == 1 && gradient.storage().use_count() == 1;
  return alone && gradient.strides() == parameter.strides() && gradient.scalar_type() == parameter.scalar_type();
}

Tensor own_gradient(Tensor gradient, const Tensor& parameter) {
  if (is_own_gradient(gradient, parameter)) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace ravnest::graph
