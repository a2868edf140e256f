// A stage of a captured model, computed by torch: forward and backward at the right version, gradients, updates.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ravnest/average/averaging.h"
#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/optim/store.h"
#include "ravnest/stage/stage.h"
#include "ravnest/worker/criterion.h"
#include "ravnest/worker/group_tensors.h"
#include "ravnest/worker/snapshots.h"
#include "ravnest/worker/tied_weights.h"
#include "ravnest/worker/worker.h"

namespace ravnest::worker {

// The engine's place in its chain; a whole model is the only stage of its own.
ir::StageInfo stage_of(const graph::Engine& engine);

struct ModelWorkerOptions {
  std::uint64_t seed = 0;
  codec::Codec codec;       // of activations and gradients between stages
  bool host_memory = true;  // messages leave the process: what is on a GPU is copied to the host
  bool recompute = false;   // keep a pass's inputs instead of its activations, and run it again before its backward
  stage::Schedule schedule = stage::Schedule::kAsync;
  Criterion criterion;  // of the leaf
  // With other clusters, where there are any; outlives the worker. For each averaging group of this stage its tensors'
  // names.
  average::Averaging* averaging = nullptr;
  std::vector<std::vector<std::string>> averaging_groups;
  bool average_optimizer = false;  // and what the optimizer keeps, as far as that is known
  // Called with all gradients of an update before the optimizer: to clip them, or to look. Undefined ones are those of
  // parameters that were not used, or are kept by another stage.
  std::function<void(std::vector<at::Tensor>& gradients)> on_gradients;
  // Called before each update with the epoch of the last pass in it, for rates that change with the epoch, and after it
  // with how many there were.
  std::function<void(std::uint64_t epoch)> before_update;
  std::function<void(std::uint64_t updates)> on_update;
  bool scheduled = false;  // one of these two sets learning rates
  // Is given snapshots for checkpoints; without it there are none.
  std::function<void(Snapshot)> on_snapshot = {};
  OwnState criterion_state = {};
};

// All calls from one thread, but for `versions_most`. The engine's tensors are the live parameters.
class ModelWorker final : public Worker {
 public:
  // `engine` outlives it. A stage with nothing to train needs no optimizer; any other fails at its first training pass.
  ModelWorker(const graph::Engine& engine, std::unique_ptr<optim::Optimizer> optimizer, ModelWorkerOptions options);

  Result<std::vector<Outgoing>> forward(const wire::PassHead& head, std::vector<wire::Forward> parts) override;
  Result<std::vector<Outgoing>> backward(const wire::PassHead& head, std::vector<wire::Backward> answers,
                                         std::vector<wire::TiedTensors> tied) override;
  Result<std::vector<Outgoing>> update(const Update& update, std::vector<wire::TiedTensors> tied) override;
  Status give(std::uint64_t gives, std::uint64_t takes) override;
  Status snapshot(std::uint64_t checkpoint) override;
  Status adopt(wire::TiedTensors values) override;

  // Before the first pass: goes on from a checkpoint's part, after so many updates.
  Status restore(const checkpoint::Part& part, std::uint64_t updates);
  // What of the optimizer's options that will leave as the part has them (PartState::options_kept).
  std::vector<std::string> options_kept(const checkpoint::Part& part) const;

  const optim::ParameterStore& store() const { return store_; }
  optim::Optimizer* optimizer() { return optimizer_.get(); }
  // The most versions that existed at a time.
  std::size_t versions_most() const { return versions_most_.load(); }

 private:
  // A pass between its forward and its backward.
  struct Pass {
    std::shared_ptr<const optim::Version> version;
    std::vector<c10::IValue> inputs;
    std::vector<at::Tensor> outputs;  // of the leaf: its loss alone, times the pass's weight
    CriterionResult result;           // of the leaf
    std::vector<at::Tensor> buffers;  // as they were, where the pass is to be run again
    std::vector<bool> wanted;         // by input: its producer takes a gradient
  };

  Status can_train() const;
  Status check_leaves(const Pass& pass);
  Result<std::vector<Outgoing>> run_forward(const wire::PassHead& head, std::vector<wire::Forward> parts);
  Result<std::vector<Outgoing>> run_backward(const wire::PassHead& head, std::vector<wire::Backward> answers,
                                             std::vector<wire::TiedTensors> tied);
  Result<std::vector<Outgoing>> run_update(const Update& update, std::vector<wire::TiedTensors> tied);
  Status step(std::uint64_t number, std::vector<wire::TiedTensors> tied, std::vector<Outgoing>& outgoing);
  Status take_in();
  Snapshots::Records carried() const;
  Status carry_on(const checkpoint::Part& part);
  optim::Optimizer* averaged_optimizer() const { return options_.average_optimizer ? optimizer_.get() : nullptr; }
  bool is_leaf() const;
  const stage::Neighbours& neighbours(wire::PassKind kind) const;
  const ir::Routing& routing(wire::PassKind kind) const;
  Status place(const wire::Forward& part, const ir::Routing& routing, Pass& pass) const;
  std::vector<c10::IValue> run_training(const wire::PassHead& head, const Pass& pass,
                                        std::span<const at::Tensor> tensors) const;
  Result<std::vector<Outgoing>> send_on(const wire::PassHead& head, const std::vector<c10::IValue>& outputs,
                                        const std::vector<wire::Forward>& parts) const;
  void recompute(const wire::PassHead& head, Pass& pass) const;
  Result<std::vector<at::Tensor>> sum_answers(const Pass& pass, std::vector<wire::Backward>& answers) const;
  std::vector<Outgoing> answer(const wire::PassHead& head, const Pass& pass, std::span<at::Tensor> gradients) const;
  void add_gradients(std::span<at::Tensor> gradients);
  void note_versions();
  void send_tied(std::span<at::Tensor> gradients, std::uint64_t number, std::vector<Outgoing>& outgoing) const;
  wire::Tensor packed(const at::Tensor& tensor) const;

  const graph::Engine& engine_;
  const ir::StageInfo stage_;
  const stage::StageOptions place_;
  const ModelWorkerOptions options_;
  CheckedCriterion criterion_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::ParameterStore store_;
  TiedWeights tied_;
  Snapshots snapshots_;
  std::vector<std::size_t> written_buffers_;  // indices of the engine's tensors
  std::optional<GroupTensors> averaging_groups_;
  bool stepped_ = true;  // since the weights were last given to a round
  // Of the last round of which a checkpoint is made: what goes from round to round.
  std::optional<average::CarriedState> carried_;
  checkpoint::RecordTensors held_;  // beside it, what parameters of 16 bits have not
  std::uint64_t updates_ = 0;       // of the optimizer
  std::map<std::uint64_t, Pass> passes_;
  std::vector<at::Tensor> gradients_;  // by parameter, since the last update
  std::uint64_t epoch_ = 0;            // of the last backward
  std::atomic<std::size_t> versions_most_ = 1;
};

}  // namespace ravnest::worker
