#include "ravnest/train/rank/rank_trainer.h"

#include <utility>

#include "ravnest/train/loop/model_call.h"
#include "ravnest/train/loop/prepare.h"
#include "ravnest/train/rank/joint_source.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::train {
namespace {

// Tells the others why the run is over. What it ends with, on all ranks alike.
Status end_run(Rank& rank, const Status& failure) {
  const bool interrupted = failure.code() == Code::kCancelled;
  const Status ended =
      rank.stop(interrupted ? Farewell::interruption() : Farewell{text("failed: ", failure.message())});
  return interrupted || ended.ok() ? failure : ended;
}

}  // namespace

// Validation is shared out, too: its counts are summed over all ranks.
Status RankTrainer::load_data() {
  const data::Share share{rank_->rank(), rank_->world()};
  auto training = load_batches(config_.data, config_, share, "ranks");
  Status wrong = training.status();
  if (training.ok()) training_ = std::move(*training);
  if (!config_.validation) return wrong;
  auto validation = load_batches(*config_.validation, config_, share, "ranks");
  if (validation.ok()) validation_ = std::move(*validation);
  return line_by_line(wrong, validation.status());
}

Result<TrainingOptions> RankTrainer::training_options(const TrainerOptions& options) const {
  const ir::StageInfo call = worker::stage_of(rank_->engine());
  if (Status one = check_one_input(call.train_call); !one.ok()) return one;
  auto criterion = criterion_of(call, config_, rank_->name(), rank_->name(), training_, validation_);
  if (!criterion.ok()) return criterion.status();
  auto made = common_options(config_, rank_->engine());
  if (!made.ok()) return made;
  made->criterion = std::move(*criterion);
  made->settings = {{"epochs", std::to_string(config_.epochs)},
                    {"batch_size", std::to_string(config_.batch_size)},
                    {"update_frequency", std::to_string(config_.update_frequency)},
                    {"val_freq", std::to_string(config_.val_freq)},
                    {"save", config_.save ? "true" : "false"},
                    {"stop_at_nan", config_.stop_at_nan ? "true" : "false"},
                    {"loss", std::string(name(config_.loss))},
                    {"shuffle", config_.data.shuffle ? "true" : "false"},
                    {"validation", config_.validation ? "true" : "false"}};
  made->record.progress = rank_->rank() == 0 ? options.progress : nullptr;
  return made;
}

Result<RankTrainer> RankTrainer::prepare(Rank& rank, const TrainConfig& config, TrainerOptions options) {
  RankTrainer trainer(rank, config);
  if (Status loaded = trainer.load_data(); !loaded.ok()) return end_run(rank, all_that_is_wrong(loaded, config));
  auto training_options = trainer.training_options(options);
  if (!training_options.ok()) return end_run(rank, training_options.status());
  if (Status done = rank.configure(std::move(*training_options)); !done.ok()) return end_run(rank, done);
  rank.record().stop_at_nan(config.stop_at_nan);
  return trainer;
}

Result<TrainOutcome> RankTrainer::train(const Poll& poll) {
  auto outcome = run(poll);
  if (!outcome.ok()) return end_run(*rank_, outcome.status());
  return outcome;
}

Result<TrainOutcome> RankTrainer::run(const Poll& poll) {
  rank_->record_settings(recorded_settings(config_, training_));
  if (Status begun = rank_->begin("train", poll); !begun.ok()) return begun;
  DatasetBatches own(*training_, DataOrder::kOfEachEpoch);
  JointSource training(own, *rank_, poll, epochs_.unit());
  std::optional<DatasetBatches> own_validation;
  std::optional<JointSource> validation;
  LoopOptions options;
  options.training = {&training, &epochs_};
  options.epochs = static_cast<std::uint64_t>(config_.epochs);
  options.val_freq = static_cast<std::uint64_t>(config_.val_freq);
  if (validation_) {
    own_validation.emplace(*validation_, DataOrder::kOfTheFirst);
    options.validation = {&validation.emplace(*own_validation, *rank_, poll, validations_.unit()), &validations_};
  }
  Feeder feeder(*rank_, position_, poll);
  if (const auto& resumed = rank_->resumed(); resumed && !position_.go_on) position_.go_on = go_on_from(*resumed);
  const auto trained = train_epochs(feeder, options);
  if (!trained.ok() && rank_->end_wanted()) {
    const auto ended = rank_->end_early(position_.epoch, poll);
    if (!ended.ok()) return ended.status();
    return TrainOutcome{.ended_early = *ended};
  }
  if (!trained.ok()) return trained.status();
  if (Status over = rank_->finish({config_.save, "", position_.epoch}, poll); !over.ok()) return over;
  return TrainOutcome{trained->seconds, trained->samples,
                      report::summary_text(rank_->summary(trained->seconds, trained->samples, options.epochs))};
}

}  // namespace ravnest::train
