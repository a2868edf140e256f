#include "ravnest/train/loop/feeder.h"

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
  if (position_->is_behind()) {
    ++position_->index;
    ++position_->trained;
    return {};
  }
  const Batch placed{wire::PassKind::kTrain, std::move(batch.inputs), position_->epoch, position_->index, batch.digest};
  if (Status fed = feed(placed); !fed.ok()) return fed;
  ++position_->index;
  ++position_->trained;
  return {};
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
  if (!position_->is_behind()) return 0;
  const std::uint64_t count = position_->go_on->index - position_->index;
  position_->index = position_->go_on->index;
  position_->trained = position_->go_on->trained;
  position_->sweep = position_->go_on->sweep;
  return count;
}

void Feeder::end_epoch() {
  if (position_->index == 0) return;
  const auto fewer = position_->epochs.ended(position_->epoch + 1, position_->index);
  if (fewer.ok() && *fewer) sink_->warn(**fewer);  // it fails only where there was none
  ++position_->epoch;
  position_->index = 0;
}

}  // namespace ravnest::train
