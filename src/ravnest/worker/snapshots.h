// The snapshots that a stage takes for checkpoints: its part of the model as it was after one update.
//
// A snapshot refers to the weights of its version, which the next update leaves as they are (optim/store.h), and copies
// the rest: so training goes on while it is written. Weights that another stage keeps are here only when their keeper's
// values of the same update have come; a snapshot waits for those that have not come before it was taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/state/part_state.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/optim/store.h"
#include "ravnest/worker/part_records.h"

namespace ravnest::worker {

struct Snapshot {
  std::uint64_t checkpoint = 0;
  checkpoint::Part part;  // of name, holder and the like it knows nothing
  // That the part's weights are of, where they are in this host's memory: hold it as long as the part. Those of a GPU
  // are copied.
  std::shared_ptr<const optim::Version> version;
};

// For the compute thread.
class Snapshots {
 public:
  // The engine outlives it. `keepers` are the stages that keep weights used here. `on_snapshot` may be empty: then
  // there are none to take.
  Snapshots(const graph::Engine& engine, const optim::ParameterStore& store, std::vector<int> keepers,
            OwnState criterion, std::function<void(Snapshot)> on_snapshot);

  // Tensors of records that a snapshot has beside its own, by record.
  using Records = std::map<std::string, checkpoint::RecordTensors>;

  // Takes one, after so many updates of the stage; `gradients` are those that wait for the next one. With `tied_follow`
  // the keepers' values of this update are still to come.
  void take(std::uint64_t checkpoint, std::uint64_t updates, const optim::ParameterStore& store,
            const optim::Optimizer* optimizer, std::span<const at::Tensor> gradients, bool tied_follow,
            const Records& records = {});
  // The keeper's values after so many updates are in the store: those of these parameters.
  void adopted(int keeper, std::uint64_t updates, std::span<const std::size_t> kept,
               const optim::ParameterStore& store);

  // What `restore` will leave as the checkpoint has it, as in PartState::options_kept.
  std::vector<std::string> options_kept(const checkpoint::Part& part, const optim::Optimizer* optimizer,
                                        bool scheduled) const {
    return state_.options_kept(part, optimizer, scheduled);
  }
  // Writes a part into the store's parameters, the engine's buffers, the optimizer, the criterion and the gradients,
  // before the first pass. `scheduled` as in PartState::restore.
  Status restore(const checkpoint::Part& part, optim::ParameterStore& store, optim::Optimizer* optimizer,
                 bool scheduled, std::vector<at::Tensor>& gradients) const;

  // The name of each parameter of the store.
  const std::vector<std::string>& names() const { return state_.names(); }

 private:
  struct Waiting {
    Snapshot snapshot;
    std::uint64_t updates = 0;
    std::set<int> keepers;  // whose values are to come
  };

  checkpoint::PartState state_;
  const std::vector<int> keepers_;
  const OwnState criterion_;
  const std::function<void(Snapshot)> on_snapshot_;
  std::map<int, std::uint64_t> adopted_;  // by keeper: after how many updates its last values are
  std::deque<Waiting> waiting_;
};

}  // namespace ravnest::worker
