#include "ravnest/optim/store.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ravnest::optim {

ParameterStore::ParameterStore(std::span<const at::Tensor> tensors) : tensors_(tensors.begin(), tensors.end()) {
  for (const at::Tensor& tensor : tensors_) {
    const auto known = std::ranges::find_if(parameters_, [&](const at::Tensor& one) { return one.is_same(tensor); });
    parameter_of_.push_back(tensor.requires_grad() ? static_cast<int>(known - parameters_.begin()) : -1);
    if (tensor.requires_grad() && known == parameters_.end()) parameters_.push_back(tensor);
  }
  publish();
}

void ParameterStore::prepare() {
  if (newest_.use_count() == 1) return;
  for (const at::Tensor& parameter : parameters_) parameter.set_data(parameter.variable_data().clone());
  moved_ = true;
}

void ParameterStore::publish() {
  if (!moved_) return;  // in place: the newest version has what was written
  auto version = std::make_shared<Version>();
  for (const at::Tensor& parameter : parameters_) {
    version->parameters.push_back(parameter.variable_data().set_requires_grad(true));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const int parameter = parameter_of_[i];
    version->tensors.push_back(parameter < 0 ? tensors_[i] : version->parameters[static_cast<std::size_t>(parameter)]);
  }
  if (newest_) held_.push_back(newest_);
  newest_ = std::move(version);
  moved_ = false;
}

std::size_t ParameterStore::alive() const {
  std::erase_if(held_, [](const auto& version) { return version.expired(); });
  return held_.size() + 1;
}

}  // namespace ravnest::optim
