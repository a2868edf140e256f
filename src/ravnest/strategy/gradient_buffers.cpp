#include "ravnest/strategy/gradient_buffers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>
#include <utility>

#include "ravnest/graph/run/differentiate.h"

namespace ravnest::strategy {
namespace {

// A window of the parameter's sizes, and of its strides where its elements lie side by side in some order.
at::Tensor window(const at::Tensor& flat, std::int64_t offset, const at::Tensor& parameter) {
  const at::Tensor part = flat.narrow(0, offset, parameter.numel());
  return parameter.is_non_overlapping_and_dense() ? part.as_strided(parameter.sizes(), parameter.strides(), offset)
                                                  : part.view(parameter.sizes());
}

// Many at a time: hundreds of copies one by one take a GPU's host longer than the GPU. torch has one operation for
// lists of one type each, whose pairs lie alike in memory.
void copy_all(std::span<const at::Tensor> into, std::span<const at::Tensor> from) {
  std::map<std::pair<at::ScalarType, at::ScalarType>, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>>
      alike;
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (into[i].strides() != from[i].strides()) {
      into[i].copy_(from[i]);
      continue;
    }
    auto& [to, of] = alike[{into[i].scalar_type(), from[i].scalar_type()}];
    to.push_back(into[i]);
    of.push_back(from[i]);
  }
  for (const auto& [types, lists] : alike) at::_foreach_copy_(lists.first, lists.second);
}

}  // namespace

GradientBuffers::GradientBuffers(const Chain& chain, std::span<const at::Tensor> parameters,
                                 const codec::Codec& compression, bool alone)
    : parameters_(parameters.begin(), parameters.end()), windows_(parameters.size()), filled_(parameters.size()) {
  if (alone) return;
  for (int step = 0; step <= chain.units(); ++step) {
    const int unit = step == chain.units() ? chain.root() : chain.units() - 1 - step;
    std::map<at::ScalarType, FlatBuffer> by_type;
    for (const std::size_t i : chain.parameters_of(unit)) by_type[parameters[i].scalar_type()].parameters.push_back(i);
    for (auto& [type, buffer] : by_type) {
      std::int64_t elements = 0;
      for (const std::size_t i : buffer.parameters) elements += parameters[i].numel();
      buffer.unit = unit;
      buffer.flat = at::zeros({elements}, parameters[buffer.parameters.front()].options().requires_grad(false));
      if (compression != codec::Codec() && type == at::kFloat)
        buffer.compression = std::make_shared<Compression>(compression, static_cast<std::size_t>(elements));
      std::int64_t offset = 0;
      for (const std::size_t i : buffer.parameters) {
        windows_[i] = window(buffer.flat, offset, parameters[i]);
        offset += parameters[i].numel();
      }
      buffers_.push_back(std::move(buffer));
    }
  }
}

void GradientBuffers::add(std::span<const std::size_t> owned, std::span<at::Tensor> gradients) {
  const at::NoGradGuard without_record;
  std::vector<at::Tensor> empty;
  std::vector<at::Tensor> first;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    at::Tensor gradient = std::move(gradients[i]);
    at::Tensor& sum = windows_[owned[i]];
    if (!gradient.defined()) continue;
    if (filled_[owned[i]]) {
      sum.add_(gradient);
    } else if (buffers_.empty() && graph::is_own_gradient(gradient, parameters_[owned[i]])) {
      sum = std::move(gradient);
    } else {
      if (buffers_.empty()) sum = at::empty_like(parameters_[owned[i]]);
      empty.push_back(sum);
      first.push_back(std::move(gradient));
    }
    filled_[owned[i]] = true;
  }
  copy_all(empty, first);
}

void GradientBuffers::send(int unit, Communicator& communicator) {
  for (const FlatBuffer& buffer : buffers_) {
    if (buffer.unit != unit) continue;
    for (const std::size_t i : buffer.parameters) {
      if (!filled_[i]) windows_[i].zero_();
    }
    pending_.push_back(communicator.all_reduce(buffer.flat, buffer.compression));
  }
}

Status GradientBuffers::wait(const Waiter& wait) {
  for (const auto& pending : std::exchange(pending_, {})) {
    if (Status arrived = wait(*pending); !arrived.ok()) return arrived;
  }
  return {};
}

Result<std::vector<at::Tensor>> GradientBuffers::sums_so_far(Communicator& communicator, const Waiter& wait) {
  if (buffers_.empty()) return windows_;
  const at::NoGradGuard without_record;
  std::vector<at::Tensor> sums(windows_.size());
  for (const FlatBuffer& buffer : buffers_) {
    for (const std::size_t i : buffer.parameters) {
      if (!filled_[i]) windows_[i].zero_();
    }
    const at::Tensor flat = buffer.flat.clone();
    if (Status arrived = wait(*communicator.all_reduce(flat)); !arrived.ok()) return arrived;
    std::int64_t offset = 0;
    for (const std::size_t i : buffer.parameters) {
      sums[i] = window(flat, offset, parameters_[i]);
      offset += parameters_[i].numel();
    }
  }
  return sums;
}

void GradientBuffers::clear() {
  filled_.assign(filled_.size(), false);
  if (buffers_.empty()) windows_.assign(windows_.size(), at::Tensor());
}

}  // namespace ravnest::strategy
