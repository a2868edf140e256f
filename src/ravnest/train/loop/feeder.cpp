#include "ravnest/train/loop/feeder.h"

#include <utility>

namespace ravnest::train {

// A sink that never lets the root wait would never ask `poll` by itself.
Status Feeder::feed(const Batch& batch) {
  if (poll_) {
    if (Status polled = poll_(); !polled.ok()) return polled;
  }
  return sink_->feed(batch, poll_);
}

Status Feeder::train(SourceBatch batch) {
  if (Status ended = end_sweep(); !ended.ok()) return ended;
  const Batch placed{wire::PassKind::kTrain, std::move(batch.inputs), position_->epoch, position_->index, batch.digest};
  if (Status fed = feed(placed); !fed.ok()) return fed;
  ++position_->index;
  ++position_->trained;
  return {};
}

Status Feeder::validate(SourceBatch batch, Sweep purpose) {
  position_->sweeping = purpose;
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
  if (Status ended = sink_->end_sweep(*position_->sweeping); !ended.ok()) return ended;
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
}

}  // namespace ravnest::train
