#include "ravnest/worker/part_records.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace ravnest::worker {
namespace {

constexpr const char* kGradients = "gradients";
constexpr const char* kCriterion = "criterion";

// Under another name in the model, and so perhaps in other stages, of whose gradients the whole one is the sum.
bool is_tied(const checkpoint::Whole& whole, const std::string& name) {
  const auto own = std::ranges::find(whole.weights, name, &archive::NamedPayloads::value_type::first);
  return own != whole.weights.end() && std::ranges::count_if(whole.weights, [&](const auto& each) {
                                         return each.second.storage == own->second.storage;
                                       }) > 1;
}

}  // namespace

void note_gradients(checkpoint::Part& part, std::span<const std::string> names, std::span<const at::Tensor> gradients) {
  checkpoint::RecordTensors waiting;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) waiting.emplace_back(names[i], gradients[i]);
  }
  if (!waiting.empty()) part.record_tensors[kGradients] = checkpoint::copied(waiting);
}

Status take_gradients(const checkpoint::Part& part, std::span<const std::string> names,
                      std::span<const at::Tensor> parameters, std::span<at::Tensor> gradients) {
  const auto found = part.record_tensors.find(kGradients);
  if (found == part.record_tensors.end()) return {};
  for (const auto& [name, payload] : found->second) {
    const auto index = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    if (index == names.size()) continue;  // another stage's
    auto gradient = checkpoint::tensor_of(payload);
    if (!gradient.ok()) return gradient.status();
    at::Tensor& own = gradients[index];
    own = at::empty_like(parameters[index]);
    if (own.sizes() != gradient->sizes()) return corrupt("a gradient in the checkpoint has sizes ", gradient->sizes());
    own.copy_(*gradient);
  }
  return {};
}

Status take_records(const checkpoint::Whole& whole, checkpoint::Part& part) {
  for (const auto& [holder, records] : whole.record_tensors) {
    for (const char* const record : {kGradients, kCriterion, kAveragingMomentum, kAveragingResiduals, kAveragingHeld}) {
      const auto found = records.find(record);
      if (found == records.end()) continue;
      for (const auto& [name, payload] : found->second) {
        if (std::string_view(record) == kGradients && is_tied(whole, name))
          return unsupported(
              "in the checkpoint gradients wait for their update, since its epoch is no multiple of "
              "update_frequency, and weights are tied: only the same plan can go on from it; name "
              "another one");
        part.record_tensors[record].emplace_back(name, payload);
      }
    }
  }
  for (const auto& [holder, records] : whole.records) {
    if (const auto found = records.find(kCriterion); found != records.end()) part.records.insert(*found);
  }
  return {};
}

void note_own_state(checkpoint::Part& part, const OwnState& criterion) {
  if (!criterion.capture) return;
  OwnState::Captured captured = criterion.capture();
  part.record_tensors[kCriterion] = checkpoint::copied(captured.tensors);
  part.records[kCriterion] = std::move(captured.text);
}

Status take_own_state(const checkpoint::Part& part, const OwnState& criterion) {
  if (!criterion.restore) return {};
  OwnState::Captured captured;
  if (const auto found = part.records.find(kCriterion); found != part.records.end()) captured.text = found->second;
  if (const auto found = part.record_tensors.find(kCriterion); found != part.record_tensors.end()) {
    for (const auto& [name, payload] : found->second) {
      auto tensor = checkpoint::tensor_of(payload);
      if (!tensor.ok()) return tensor.status();
      captured.tensors.emplace_back(name, tensor->clone());
    }
  }
  return captured.text.empty() && captured.tensors.empty() ? Status() : criterion.restore(captured);
}

}  // namespace ravnest::worker
