#include "ravnest/train/loop/feeder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ravnest::train {
namespace {

Status ended_early(const std::string& why) { return cancelled("the training ends early: ", why); }

}  // namespace

// A sink that never lets the root wait would never ask `poll` by itself.
Status Feeder::feed(const Batch& batch) {
  if (const auto wanted = sink_->end_wanted()) return ended_early(*wanted);
  if (poll_) {
    if (Status polled = poll_(); !polled.ok()) return polled;
  }
  return sink_->feed(batch, poll_);
}

Status Feeder::train(SourceBatch batch) {
  if (Status ended = end_sweep(); !ended.ok()) return ended;
  Batch placed{wire::PassKind::kTrain, std::move(batch.inputs), position_->epoch, position_->index, batch.digest};
  bool left_out = false;
  if (position_->is_going_on()) {
    const auto behind = leave_out(placed);
    if (!behind.ok()) return behind.status();
    left_out = *behind;
  }
  if (!left_out) {
    placed.left_out = std::exchange(position_->left_out, std::nullopt);
    if (Status fed = feed(placed); !fed.ok()) return fed;
  }
  ++position_->index;
  ++position_->trained;
  if (left_out && is_there()) arrive();
  return {};
}

// -- on the way to where the run goes on

bool Feeder::goes_by_batches() const {
  const std::uint64_t then = position_->go_on->batch;
  return then == 0 || then == position_->first_batch;
}

bool Feeder::is_there() const {
  const Position& at = *position_;
  const GoOn& to = *at.go_on;
  return at.epoch == to.epoch && (goes_by_batches() ? at.index == to.index : at.samples == to.samples);
}

// Whether the run has trained on this batch before.
Result<bool> Feeder::leave_out(Batch& batch) {
  Position& at = *position_;
  const GoOn& to = *at.go_on;
  if (at.epoch < to.epoch) return true;
  if (at.epoch == to.epoch && to.index > 0) {
    const auto samples = sink_->samples_of_all(batch, poll_);
    if (!samples.ok()) return samples.status();
    batch.of_all = *samples;
    if (at.index == 0) at.first_batch = *samples;
    const std::uint64_t end = at.samples + *samples;
    if (goes_by_batches() || end <= to.samples) {
      at.samples = end;
      return true;
    }
    // What a step is cannot be changed in its middle: none of its samples is left out, and some come twice.
    sink_->warn(text("the checkpoint is ", to.samples, " samples into epoch ", to.epoch + 1, ", and a step takes ",
                     at.first_batch, " now, where it took ", to.batch, ": the run goes on with the step of samples ",
                     at.samples + 1, " to ", end, ", of which the first ", to.samples - at.samples,
                     " were trained on before"));
  }
  arrive();
  return false;
}

void Feeder::arrive() {
  Position& at = *position_;
  at.went_on = true;
  at.trained = at.go_on->trained;
  at.sweep = std::max(at.sweep, at.go_on->sweep);
  if (at.index > 0) at.left_out = {goes_by_batches() ? at.go_on->samples : at.samples, at.first_batch};
}

bool Feeder::skip_epoch() {
  if (!position_->go_on || position_->epoch >= position_->go_on->epoch) return false;
  ++position_->epoch;
  position_->index = 0;
  // Validations in between are not gone through one by one.
  if (position_->epoch == position_->go_on->epoch) position_->sweep = position_->go_on->sweep;
  position_->trained = position_->epoch == position_->go_on->epoch ? position_->go_on->trained - position_->go_on->index
                                                                   : position_->trained;
  return true;
}

std::uint64_t Feeder::skip_batches() {
  Position& at = *position_;
  if (!at.is_going_on() || at.epoch != at.go_on->epoch || at.index == 0) return 0;
  const GoOn& to = *at.go_on;
  // An epoch's last batch, which may be short, is looked at when it comes.
  const std::uint64_t count = goes_by_batches()     ? to.index - at.index
                              : at.first_batch == 0 ? 0
                                                    : (to.samples - at.samples) / at.first_batch;
  at.index += count;
  at.trained += count;
  at.samples += count * at.first_batch;
  if (is_there()) arrive();
  return count;
}

Status Feeder::validate(SourceBatch batch, Sweep purpose) {
  position_->sweeping = purpose;
  if (position_->sweep_is_behind()) {
    ++position_->sweep_index;
    return {};
  }
  const Batch placed{wire::PassKind::kValidate, std::move(batch.inputs), position_->sweep, position_->sweep_index,
                     batch.digest};
  if (Status fed = feed(placed); !fed.ok()) return fed;
  ++position_->sweep_index;
  return {};
}

Result<std::vector<wire::Tensor>> Feeder::predict(std::vector<at::Tensor> inputs) {
  if (Status ended = end_sweep(); !ended.ok()) return ended;
  if (Status fed = feed({.kind = wire::PassKind::kPredict, .inputs = std::move(inputs)}); !fed.ok()) return fed;
  if (Status drained = drain(); !drained.ok()) return drained;
  // All passes are reported, in their order: the last prediction is this one.
  auto passes = sink_->record().take_outputs();
  if (passes.empty()) return internal("the leaf has sent no outputs of a prediction");
  return std::move(passes.back());
}

Status Feeder::end_sweep() {
  if (!position_->sweeping) return {};
  if (!position_->sweep_is_behind()) {
    if (Status ended = sink_->end_sweep(*position_->sweeping); !ended.ok()) return ended;
  }
  position_->sweeping.reset();
  ++position_->sweep;
  position_->sweep_index = 0;
  return {};
}

void Feeder::end_epoch() {
  if (position_->index == 0) return;
  const auto fewer = position_->epochs.ended(position_->epoch + 1, position_->index);
  if (fewer.ok() && *fewer) sink_->warn(**fewer);  // it fails only where there was none
  ++position_->epoch;
  position_->index = 0;
  position_->left_out.reset();
  if (position_->is_going_on() && position_->epoch > position_->go_on->epoch) arrive();
}

}  // namespace ravnest::train
