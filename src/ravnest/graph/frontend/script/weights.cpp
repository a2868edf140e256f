#include "ravnest/graph/frontend/script/weights.h"

#include <torch/csrc/jit/api/module.h>

#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph::script {
namespace {

void collect(const torch::jit::Module& module, const std::string& prefix, Weights& weights) {
  const c10::ClassTypePtr type = module.type();
  const auto object = module._ivalue();
  const auto add = [&](bool wanted_parameter, bool wanted_buffer, ir::InputKind kind, bool persistent) {
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      if (type->is_parameter(i) != wanted_parameter || type->is_buffer(i) != wanted_buffer) continue;
      const c10::IValue& value = object->getSlot(i);
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      weights.push_back({prefix + type->getAttributeName(i), value.toTensor(), kind, persistent});
    }
  };
  add(true, false, ir::InputKind::kParameter, true);
  add(false, true, ir::InputKind::kBuffer, true);
  add(false, false, ir::InputKind::kBuffer, false);
  for (const auto& child : module.named_children()) collect(child.value, prefix + child.name + ".", weights);
}

std::vector<at::Tensor> tensors_of(const Weights& weights) {
  std::vector<at::Tensor> tensors;
  for (const Weight& weight : weights) tensors.push_back(weight.tensor);
  return tensors;
}

}  // namespace

Weights weights_of(const torch::jit::Module& module) {
  Weights weights;
  collect(module, "", weights);
  return weights;
}

c10::Device device_of(const Weights& weights) {
  return weights.empty() ? c10::Device(c10::kCPU) : weights.front().tensor.device();
}

std::vector<at::Tensor> copies(const Weights& weights) {
  const std::vector<archive::Payload> payloads = to_payloads(tensors_of(weights));
  archive::NamedPayloads named;
  for (std::size_t i = 0; i < weights.size(); ++i) named.emplace_back(weights[i].name, payloads[i]);
  return materialize(named, device_of(weights));
}

void store(const Weights& weights, ir::Model& model) {
  std::vector<archive::Payload> payloads = to_payloads(tensors_of(weights));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    payloads[i].is_parameter = weights[i].kind == ir::InputKind::kParameter;
    (weights[i].persistent ? model.weights : model.constants).emplace_back(weights[i].name, std::move(payloads[i]));
  }
}

Untouched::Untouched(const Weights& weights) {
  for (const Weight& weight : weights) {
    if (weight.kind == ir::InputKind::kBuffer) buffers_.emplace_back(weight.tensor, weight.tensor.detach().clone());
  }
}

Untouched::~Untouched() {
  const at::NoGradGuard no_grad;
  for (auto& [own, value] : buffers_) own.copy_(value);
}

}  // namespace ravnest::graph::script
