// One rank of synchronous data parallelism: the whole model here, trained as if the batches of all ranks were one.
//
// Every pass is a batch of this rank's own, weighted by its share of all ranks' samples. Gradients lie in a flat buffer
// for each unit of the chain (chain.h), and a buffer is sent as soon as the unit's backward is over, while earlier
// units still compute. The order is known from the graph, so all ranks have the same without a word. After an update
// the parameters are alike on all ranks to the bit. A rank that has no batch left takes part all the same, so that
// nobody waits: see `absent`. In 16 bits (mixed_precision.h) gradients are added up and sent in the weights' own type.
// For one thread. Failures are those of the communicator, or sentences for the user;
// torch's exceptions pass through.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/state/part_state.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/strategy/chain.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/device_stream.h"
#include "ravnest/strategy/communicate/waiter.h"
#include "ravnest/strategy/gradient_buffers.h"
#include "ravnest/strategy/loss_scale.h"
#include "ravnest/strategy/mixed_precision.h"
#include "ravnest/strategy/shared_buffers.h"
#include "ravnest/worker/criterion.h"

namespace ravnest::strategy {

// The loss of a pass over all ranks, on its way: summed while the backward computes.
class SharedLoss {
 public:
  // `values` are being summed. Waits for that, but on a GPU not for what it has still to compute.
  static Result<SharedLoss> of(const at::Tensor& values, Pending& pending, const Waiter& wait);

  // float64, on the host: the sum of the ranks' losses, each times its rank's weight; then for each rank 1 where its
  // own loss is not finite, else 0. Waits for them. kDeadline where they are not there by then.
  Result<std::span<const double>> values(TimePoint deadline) const;

 private:
  explicit SharedLoss(const at::Tensor& values);

  at::Tensor on_host_;
  StreamMark copied_;
};

struct DdpOptions {
  std::uint64_t seed = 0;
  worker::Criterion criterion;
  bool broadcast_buffers = true;  // those that training writes are rank 0's after each update
  codec::Codec compression;       // of gradients
  Precision precision = Precision::kFloat32;
  LossScaleOptions loss_scale;  // of fp16
  Waiter wait = [](Pending& pending) { return pending.wait(); };
  // Called with all gradients of an update before the optimizer: to clip them, or to look. Undefined ones are those
  // that the loss does not reach.
  std::function<void(std::vector<at::Tensor>& gradients)> on_gradients;
};

// How long the rank was busy with what, since it began.
struct DdpTimes {
  double forward_s = 0;
  double backward_s = 0;
  double wait_s = 0;  // for gradients of others that were not there when all was computed
  double update_s = 0;
};

class Ddp final : private ChainObserver {
 public:
  // The engine, whose tensors are the live parameters, and the communicator outlive it. A model with nothing to train
  // has no optimizer.
  Ddp(const graph::Engine& engine, Chain chain, Communicator& communicator, std::unique_ptr<optim::Optimizer> optimizer,
      DdpOptions options);

  // All ranks begin with rank 0's parameters and buffers. Once, before the first pass.
  Status begin();

  // A pass that trains: forward, loss, backward, and with `head.update` the update of all ranks. `head.weight` is this
  // rank's share of the samples of all ranks, `head.step` the key of its random numbers.
  Result<SharedLoss> train(const wire::PassHead& head, std::vector<c10::IValue> inputs);
  // What a rank does that has no batch where others have one.
  Result<SharedLoss> absent(const wire::PassHead& head);
  // The outputs, and of a validation what the criterion says of them. Of this rank alone.
  Result<std::vector<c10::IValue>> evaluate(std::vector<c10::IValue> inputs);
  Result<worker::CriterionResult> apply_criterion(const wire::PassHead& head,
                                                  const std::vector<c10::IValue>& outputs) const {
    return criterion_(head, outputs);
  }

  // -- checkpoints, between updates

  // The state of all ranks, which is the same on each, into the part: weights and buffers, what the optimizer keeps,
  // the loss scale. What the part refers to is its own.
  void capture(checkpoint::Part& part);
  // What passes since the last update have added up on all ranks goes into the part too. On all ranks; only the first
  // one's part has it.
  Status capture_waiting(checkpoint::Part& part);
  // Goes on from a part, in two steps: what was counted, so that schedules can follow, and then the rest. `steps` are
  // the updates with those that were skipped; `scheduled` as in PartState::restore. kInvalid, or kNotFound, with the
  // first name that differs, for a part of another model or optimizer.
  Status go_on_after(const checkpoint::Part& part, std::uint64_t steps);
  Status restore(const checkpoint::Part& part, bool scheduled);
  // As PartState::options_kept.
  std::vector<std::string> options_kept(const checkpoint::Part& part, bool scheduled) const {
    return state_.options_kept(part, optimizer_.get(), scheduled);
  }

  optim::Optimizer* optimizer() { return optimizer_.get(); }
  std::span<const at::Tensor> parameters() const { return parameters_; }
  std::uint64_t updates() const { return updates_; }  // that changed the parameters
  // The same with those that fp16 skipped, as the loop counts them.
  std::uint64_t steps() const { return updates_ + (loss_scale_ ? loss_scale_->skipped() : 0); }
  // Of fp16; none in other precisions.
  const std::optional<LossScale>& loss_scale() const { return loss_scale_; }
  const DdpTimes& times() const { return times_; }

 private:
  void after_backward(int unit, std::span<at::Tensor> gradients) override;
  struct Sum {
    at::Tensor values;
    std::shared_ptr<Pending> pending;
  };
  Sum begin_loss(const at::Tensor& loss, double weight);
  Status finish_pass(bool update, bool computed);
  Status agree_on_reached(bool computed);
  Status check_reached() const;
  Status update();
  bool unscale(std::span<const at::Tensor> gradients);

  const graph::Engine& engine_;
  const Chain chain_;
  Communicator& communicator_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  const DdpOptions options_;
  worker::CheckedCriterion criterion_;
  std::vector<at::Tensor> parameters_;  // the live ones, in the order of Chain::parameters
  checkpoint::PartState state_;
  MixedPrecision precision_;
  std::optional<LossScale> loss_scale_;
  GradientBuffers gradients_;
  SharedBuffers buffers_;
  bool sends_ = false;             // the present pass is the last one before an update
  std::vector<bool> reached_now_;  // by parameter: the losses since the last update had a gradient for it
  std::vector<bool> reached_;      // the same as the ranks agreed at the first update; empty before
  std::uint64_t updates_ = 0;
  DdpTimes times_;
};

}  // namespace ravnest::strategy
