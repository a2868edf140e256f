#include "ravnest/train/loop/trainer.h"

#include <ATen/ATen.h>

#include <array>
#include <random>
#include <utility>

#include "ravnest/train/node/labels.h"

namespace ravnest::train {
namespace {

std::string random_id() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string id(12, '0');
  for (char& digit : id) digit = kDigits[random() % kDigits.size()];
  return id;
}

// Tells the others why the run is over; those who ended it know already, and pay no attention.
Status end_run(Node& node, const Status& failure) {
  node.stop(failure.code() == Code::kCancelled ? Farewell::interruption()
                                               : Farewell{text("failed: ", failure.message())});
  return failure;
}

}  // namespace

Result<TrainOutcome> Trainer::train(const Poll& poll) {
  if (Status begun = node_->begin("train"); !begun.ok()) return begun;
  if (!node_->is_root()) {
    const auto closing = serve("train", poll);
    if (!closing.ok()) return end_run(*node_, closing.status());
    return TrainOutcome();
  }
  auto outcome = lead(poll);
  if (!outcome.ok()) return end_run(*node_, outcome.status());
  return outcome;
}

Result<Closing> Trainer::serve(const std::string& call, const Poll& poll) {
  auto closing = node_->serve(poll);
  while (closing.ok() && closing->more) {
    if (Status begun = node_->begin(call); !begun.ok()) return begun;
    closing = node_->serve(poll);
  }
  return closing;
}

Result<TrainOutcome> Trainer::lead(const Poll& poll) {
  const TimePoint start = SystemClock().now();
  const std::uint64_t before = node_->record().samples_trained();
  node_->record().begin_training(epoch_, static_cast<std::uint64_t>(config_.epochs),
                                 static_cast<std::uint64_t>(training_->batches.per_epoch()));
  if (Status fed = feed_epochs(poll); !fed.ok()) return fed;
  if (Status drained = node_->drain(poll); !drained.ok()) return drained;
  node_->record().end_training();
  TrainOutcome outcome{seconds_between(start, SystemClock().now()), node_->record().samples_trained() - before, ""};
  if (run_.empty()) run_ = random_id();
  const auto closing = node_->finish({config_.save, run_, epoch_}, /*more=*/false, poll);
  if (!closing.ok()) return closing.status();
  outcome.summary = report::summary_text(
      node_->run_summary(outcome.seconds, outcome.samples, static_cast<std::uint64_t>(config_.epochs)));
  return outcome;
}

Status Trainer::feed_epochs(const Poll& poll) {
  const auto every = static_cast<std::uint64_t>(config_.val_freq);
  std::optional<std::uint64_t> validated;  // after so many batches
  const auto check = [&]() -> Status {
    validated = batches_;
    return validate(poll);
  };
  for (std::int64_t i = 0; i < config_.epochs; ++i) {
    const auto count = static_cast<std::uint64_t>(training_->batches.per_epoch());
    for (std::uint64_t index = 0; index < count; ++index) {
      data::Dataset batch = training_->batch(epoch_, index);
      const std::uint64_t digest = label_digest(std::array{batch.targets});
      if (Status fed = feed({wire::PassKind::kTrain, {std::move(batch.inputs)}, epoch_, index, digest}, poll);
          !fed.ok())
        return fed;
      ++batches_;
      if (every > 1 && batches_ % every == 0) {
        if (Status checked = check(); !checked.ok()) return checked;
      }
    }
    ++epoch_;
    if (every == 1 && i + 1 < config_.epochs) {
      if (Status checked = check(); !checked.ok()) return checked;
    }
  }
  // The last accuracy is that of the weights that are saved: those after the last round, where there are clusters.
  if (node_->plan().clusters.size() > 1) {
    if (Status finished = node_->finish_rounds(poll); !finished.ok()) return finished;
    validated.reset();
  }
  return validated == batches_ ? Status() : check();
}

// A pipeline that never lets the root wait would never ask `poll` by itself.
Status Trainer::feed(const Batch& batch, const Poll& poll) {
  if (poll) {
    if (Status polled = poll(); !polled.ok()) return polled;
  }
  return node_->feed(batch, poll);
}

Status Trainer::validate(const Poll& poll) { return validation_ ? sweep(Sweep::kValidation, poll) : Status(); }

Status Trainer::sweep(Sweep purpose, const Poll& poll) {
  const auto count = static_cast<std::uint64_t>(validation_->batches.per_epoch());
  for (std::uint64_t index = 0; index < count; ++index) {
    data::Dataset batch = validation_->batch(0, index);
    const std::uint64_t digest = label_digest(std::array{batch.targets});
    if (Status fed = feed({wire::PassKind::kValidate, {std::move(batch.inputs)}, sweeps_, index, digest}, poll);
        !fed.ok())
      return fed;
  }
  ++sweeps_;
  return node_->end_sweep(purpose);
}

Result<std::optional<double>> Trainer::evaluate(const Poll& poll) {
  if (Status begun = node_->begin("evaluate"); !begun.ok()) return begun;
  const auto closing = [&]() -> Result<Closing> {
    if (!node_->is_root()) return serve("evaluate", poll);
    if (!validation_) return invalid("there is nothing to evaluate on: train.toml has no [validation]");
    if (Status swept = sweep(Sweep::kEvaluation, poll); !swept.ok()) return swept;
    return node_->finish({false, run_, epoch_}, /*more=*/false, poll);
  }();
  if (!closing.ok()) return end_run(*node_, closing.status());
  return closing->accuracy;
}

}  // namespace ravnest::train
