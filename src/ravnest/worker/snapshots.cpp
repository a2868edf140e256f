#include "ravnest/worker/snapshots.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ravnest::worker {

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
  note_gradients(snapshot.part, state_.names(), gradients);
  for (const auto& [record, tensors] : records) {
    if (!tensors.empty()) snapshot.part.record_tensors[record] = checkpoint::copied(tensors);
  }
  note_own_state(snapshot.part, criterion_);
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
  if (Status taken = take_gradients(part, state_.names(), store.parameters(), gradients); !taken.ok()) return taken;
  return take_own_state(part, criterion_);
}

}  // namespace ravnest::worker
