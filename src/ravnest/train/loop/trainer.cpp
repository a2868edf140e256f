#include "ravnest/train/loop/trainer.h"

#include <optional>
#include <utility>

#include "ravnest/base/random_id.h"

namespace ravnest::train {
namespace {

// Tells the others why the run is over; those who ended it know already, and pay no attention.
Status end_run(Node& node, const Status& failure) {
  node.stop(failure.code() == Code::kCancelled ? Farewell::interruption()
                                               : Farewell{text("failed: ", failure.message())});
  return failure;
}

}  // namespace

Result<TrainOutcome> Trainer::train(const Poll& poll) {
  if (Status begun = node_->begin_run(recorded_settings(config_, training_), poll); !begun.ok())
    return end_run(*node_, begun);
  if (Status begun = node_->begin("train"); !begun.ok()) return begun;
  if (const auto& resumed = node_->resumed(); resumed && !position_.go_on) position_.go_on = go_on_from(*resumed);
  if (!node_->is_root()) {
    const auto closing = serve("train", poll);
    if (!closing.ok()) return end_run(*node_, closing.status());
    return TrainOutcome{.ended_early = closing->ended_early};
  }
  auto outcome = lead(poll);
  if (!outcome.ok()) return end_run(*node_, outcome.status());
  return outcome;
}

Result<wire::Closed> Trainer::serve(const std::string& call, const Poll& poll) {
  auto closing = node_->serve(poll);
  while (closing.ok() && closing->goes_on) {
    if (Status begun = node_->begin(call); !begun.ok()) return begun;
    closing = node_->serve(poll);
  }
  return closing;
}

Result<TrainOutcome> Trainer::lead(const Poll& poll) {
  DatasetBatches training(*training_, DataOrder::kOfEachEpoch);
  std::optional<DatasetBatches> validation;
  LoopOptions options;
  options.training = {&training, &epochs_};
  options.epochs = static_cast<std::uint64_t>(config_.epochs);
  options.val_freq = static_cast<std::uint64_t>(config_.val_freq);
  if (validation_) options.validation = {&validation.emplace(*validation_, DataOrder::kOfTheFirst), &validations_};
  Feeder feeder(*node_, position_, poll);
  const auto trained = train_epochs(feeder, options);
  if (run_.empty()) run_ = random_id(12);
  if (!trained.ok() && trained.status().code() == Code::kCancelled && node_->end_wanted()) {
    const auto closing = node_->finish_early({false, run_, position_.epoch}, poll);
    if (!closing.ok()) return closing.status();
    return TrainOutcome{.ended_early = closing->ended_early};
  }
  if (!trained.ok()) return trained.status();
  const auto closing = node_->finish({config_.save, run_, position_.epoch}, /*goes_on=*/false, poll);
  if (!closing.ok()) return closing.status();
  return TrainOutcome{trained->seconds, trained->samples,
                      report::summary_text(node_->run_summary(trained->seconds, trained->samples, options.epochs))};
}

Result<std::optional<double>> Trainer::evaluate(const Poll& poll) {
  if (Status begun = node_->begin("evaluate"); !begun.ok()) return begun;
  const auto closing = [&]() -> Result<wire::Closed> {
    if (!node_->is_root()) return serve("evaluate", poll);
    if (!validation_) return invalid("there is nothing to evaluate on: train.toml has no [validation]");
    DatasetBatches validation(*validation_, DataOrder::kOfTheFirst);
    Feeder feeder(*node_, position_, poll);
    if (Status swept = sweep(feeder, {&validation, &validations_}, Sweep::kEvaluation); !swept.ok()) return swept;
    return node_->finish({false, run_, position_.epoch}, /*goes_on=*/false, poll);
  }();
  if (!closing.ok()) return end_run(*node_, closing.status());
  return closing->accuracy;
}

}  // namespace ravnest::train
