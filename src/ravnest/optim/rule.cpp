#include "ravnest/optim/rule.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <c10/core/DefaultDtype.h>

namespace ravnest::optim {

std::span<const Rule> rules() {
  static const std::vector<Rule> all = {sgd_rule(),     adam_rule(),    adamw_rule(), nadam_rule(),
                                        rmsprop_rule(), adagrad_rule(), lamb_rule()};
  return all;
}

bool fused(const Options& options) { return has(options, "fused") && flag(options, "fused"); }

at::Tensor penalized(const Slot& slot, bool maximize, double weight_decay) {
  at::Tensor gradient = maximize ? slot.gradient.neg() : slot.gradient;
  return weight_decay == 0 ? gradient : gradient.add(slot.parameter, weight_decay);
}

const at::Tensor& multiply(const at::Tensor& tensor, double factor) {
  tensor.mul_(at::native::wrapped_scalar_tensor(factor));
  return tensor;
}

at::Tensor& zeros(at::Tensor& tensor, const at::Tensor& like) {
  if (!tensor.defined()) tensor = at::zeros_like(like, at::MemoryFormat::Preserve);
  return tensor;
}

at::Tensor& counter(at::Tensor& tensor, double first) {
  const bool doubles = c10::get_default_dtype_as_scalartype() == at::kDouble;
  if (!tensor.defined()) tensor = at::full({}, first, at::dtype(doubles ? at::kDouble : at::kFloat));
  if (!tensor.is_cpu()) tensor = tensor.cpu();
  return tensor;
}

at::Tensor& fused_counter(at::Tensor& tensor, c10::Device device) {
  if (!tensor.defined()) tensor = at::zeros({}, at::dtype(at::kFloat).device(device));
  if (tensor.device() != device || tensor.scalar_type() != at::kFloat) tensor = tensor.to(device, at::kFloat);
  return tensor;
}

double advance(at::Tensor& counter) {
  if (counter.scalar_type() == at::kDouble) return *counter.mutable_data_ptr<double>() += 1;
  return *counter.mutable_data_ptr<float>() += 1;
}

}  // namespace ravnest::optim
