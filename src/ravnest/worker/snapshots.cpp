#include "ravnest/worker/snapshots.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
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

Status take_records(const checkpoint::Whole& whole, checkpoint::Part& part) {
  for (const auto& [holder, records] : whole.record_tensors) {
    for (const char* const record : {kGradients, kCriterion, kAveragingMomentum, kAveragingResiduals}) {
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

Snapshots::Snapshots(const graph::Engine& engine, const optim::ParameterStore& store, std::vector<int> keepers,
                     OwnState criterion, std::function<void(Snapshot)> on_snapshot)
    : state_(engine, store.parameters()),
      keepers_(std::move(keepers)),
      criterion_(std::move(criterion)),
      on_snapshot_(std::move(on_snapshot)) {}

void Snapshots::take(std::uint64_t checkpoint, std::uint64_t updates, const optim::ParameterStore& store,
                     const optim::Optimizer* optimizer, std::span<const at::Tensor> gradients, bool tied_follow,
                     const Records& records) {
  if (!on_snapshot_) return;
  Waiting taken;
  Snapshot& snapshot = taken.snapshot;
  snapshot.checkpoint = checkpoint;
  snapshot.version = store.newest();
  state_.capture(snapshot.part, snapshot.version->tensors, optimizer, /*weights_stay=*/true);
  const bool on_host = std::ranges::all_of(snapshot.version->tensors, [](const auto& each) { return each.is_cpu(); });
  if (!on_host) snapshot.version.reset();  // or the next update would need the GPU's memory twice
  checkpoint::RecordTensors waiting;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) waiting.emplace_back(state_.names()[i], gradients[i]);
  }
  if (!waiting.empty()) snapshot.part.record_tensors[kGradients] = checkpoint::copied(waiting);
  for (const auto& [record, tensors] : records) {
    if (!tensors.empty()) snapshot.part.record_tensors[record] = checkpoint::copied(tensors);
  }
  if (criterion_.capture) {
    OwnState::Captured captured = criterion_.capture();
    snapshot.part.record_tensors[kCriterion] = checkpoint::copied(captured.tensors);
    snapshot.part.records[kCriterion] = std::move(captured.text);
  }
  taken.updates = updates;
  if (tied_follow) {
    // Where ties go pass by pass a keeper may be faster than the update here: its values are in the store already.
    std::ranges::copy_if(keepers_, std::inserter(taken.keepers, taken.keepers.end()), [&](int keeper) {
      const auto last = adopted_.find(keeper);
      return last == adopted_.end() || last->second < updates;
    });
  }
  if (taken.keepers.empty()) return on_snapshot_(std::move(snapshot));
  waiting_.push_back(std::move(taken));
}

void Snapshots::adopted(int keeper, std::uint64_t updates, std::span<const std::size_t> kept,
                        const optim::ParameterStore& store) {
  adopted_[keeper] = updates;
  const auto found = std::ranges::find_if(
      waiting_, [&](const Waiting& each) { return each.updates == updates && each.keepers.contains(keeper); });
  if (found == waiting_.end()) return;
  archive::NamedPayloads& weights = found->snapshot.part.weights;
  for (const std::size_t parameter : kept) {
    const std::string& name = state_.names()[parameter];
    const auto before = std::ranges::find(weights, name, &archive::NamedPayloads::value_type::first)->second.storage;
    const archive::Payload value = checkpoint::copied({{name, store.parameters()[parameter]}}).front().second;
    for (auto& [other, payload] : weights) {
      if (payload.storage != before) continue;  // tied within this stage, too
      payload.storage = value.storage;
      payload.strides = value.strides;
      payload.storage_offset = value.storage_offset;
    }
  }
  found->keepers.erase(keeper);
  if (!found->keepers.empty()) return;
  Snapshot complete = std::move(found->snapshot);
  waiting_.erase(found);
  on_snapshot_(std::move(complete));
}

Status Snapshots::restore(const checkpoint::Part& part, optim::ParameterStore& store, optim::Optimizer* optimizer,
                          bool scheduled, std::vector<at::Tensor>& gradients) const {
  store.prepare();
  Status restored = state_.restore(part, optimizer, scheduled);
  store.publish();
  if (!restored.ok()) return restored;
  if (const auto found = part.record_tensors.find(kGradients); found != part.record_tensors.end()) {
    for (const auto& [name, payload] : found->second) {
      const auto index = std::ranges::find(state_.names(), name) - state_.names().begin();
      if (static_cast<std::size_t>(index) == gradients.size()) continue;  // another stage's
      auto gradient = checkpoint::tensor_of(payload);
      if (!gradient.ok()) return gradient.status();
      at::Tensor& own = gradients[static_cast<std::size_t>(index)];
      own = at::empty_like(store.parameters()[static_cast<std::size_t>(index)]);
      if (own.sizes() != gradient->sizes())
        return corrupt("a gradient in the checkpoint has sizes ", gradient->sizes());
      own.copy_(*gradient);
    }
  }
  if (!criterion_.restore) return {};
  OwnState::Captured captured;
  if (const auto found = part.records.find(kCriterion); found != part.records.end()) captured.text = found->second;
  if (const auto found = part.record_tensors.find(kCriterion); found != part.record_tensors.end()) {
    for (const auto& [name, payload] : found->second) {
      auto tensor = checkpoint::tensor_of(payload);
      if (!tensor.ok()) return tensor.status();
      captured.tensors.emplace_back(name, tensor->clone());
    }
  }
  return captured.text.empty() && captured.tensors.empty() ? Status() : criterion_.restore(captured);
}

}  // namespace ravnest::worker
