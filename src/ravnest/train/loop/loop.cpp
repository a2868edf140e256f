#include "ravnest/train/loop/loop.h"

#include <optional>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

class EpochLoop {
 public:
  EpochLoop(Feeder& feeder, const LoopOptions& options) : feeder_(feeder), options_(options) {}

  Status run() {
    bool trains = false;  // nothing but epochs that are over so far
    for (std::uint64_t i = 0; i < options_.epochs; ++i) {
      if (feeder_.skip_epoch()) continue;
      trains = true;
      if (Status fed = feed_epoch(); !fed.ok()) return fed;
      if (options_.val_freq == 1 && i + 1 < options_.epochs) {
        if (Status checked = validate(); !checked.ok()) return checked;
      }
    }
    if (!trains && options_.epochs > 0) {
      feeder_.sink().warn(
          text("nothing is trained: ", options_.epochs == 1 ? "the epoch" : text("all ", options_.epochs, " epochs"),
               " that it was asked for lie before the checkpoint that the run goes on from"));
      return {};
    }
    // The last accuracy is that of the weights that are saved: those after the last round, where there are rounds.
    if (feeder_.sink().has_rounds()) {
      if (Status finished = feeder_.finish_rounds(); !finished.ok()) return finished;
      validated_.reset();
    }
    return validated_ == feeder_.position().trained ? Status() : validate();
  }

 private:
  Status feed_epoch() {
    const std::uint64_t number = feeder_.position().epoch;
    if (Status begun = options_.training.batches->begin(number); !begun.ok()) return begun;
    std::uint64_t count = 0;
    for (;; ++count) {
      auto batch = options_.training.batches->next();
      if (!batch.ok()) return batch.status();
      if (!*batch) break;
      if (Status fed = feeder_.train(std::move(**batch)); !fed.ok()) return fed;
      const std::uint64_t behind = feeder_.skip_batches();
      if (Status skipped = options_.training.batches->skip(behind); !skipped.ok()) return skipped;
      count += behind;
      if (feeder_.position().is_going_on()) continue;
      // The last of those may have been the one to validate after, and the run have ended before that was done.
      if (Status checked = validate_where_due(); !checked.ok()) return checked;
    }
    // Of fewer batches than before the feeder tells, which knows the batches of loops that users write too.
    if (const auto ended = options_.training.counts->ended(number + 1, count); !ended.ok()) return ended.status();
    feeder_.end_epoch();
    return {};
  }

  Status validate_where_due() {
    return options_.val_freq > 1 && feeder_.position().trained % options_.val_freq == 0 ? validate() : Status();
  }

  Status validate() {
    validated_ = feeder_.position().trained;
    if (feeder_.position().validation_is_behind()) return {};
    return options_.validation.batches == nullptr ? Status() : sweep(feeder_, options_.validation, Sweep::kValidation);
  }

  Feeder& feeder_;
  const LoopOptions& options_;
  std::optional<std::uint64_t> validated_;  // after so many batches
};

}  // namespace

Result<Trained> train_epochs(Feeder& feeder, const LoopOptions& options) {
  RunRecord& record = feeder.sink().record();
  const TimePoint start = SystemClock().now();
  const std::uint64_t before = record.samples_trained();
  record.begin_training(feeder.position().epoch, options.epochs, options.training.batches->batches());
  if (Status fed = EpochLoop(feeder, options).run(); !fed.ok()) return fed;
  if (Status drained = feeder.drain(); !drained.ok()) return drained;
  record.end_training();
  return Trained{seconds_between(start, SystemClock().now()), record.samples_trained() - before};
}

Status sweep(Feeder& feeder, const LoopSource& source, Sweep purpose) {
  const std::uint64_t number = feeder.position().sweep;
  if (Status begun = source.batches->begin(number); !begun.ok()) return begun;
  for (;;) {
    auto batch = source.batches->next();
    if (!batch.ok()) return batch.status();
    if (!*batch) break;
    if (Status fed = feeder.validate(std::move(**batch), purpose); !fed.ok()) return fed;
  }
  const auto fewer = source.counts->ended(number + 1, feeder.position().sweep_index);
  if (!fewer.ok()) return fewer.status();
  if (*fewer) feeder.sink().warn(**fewer);
  return feeder.end_sweep();
}

}  // namespace ravnest::train
