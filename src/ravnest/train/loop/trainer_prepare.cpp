// From a config to what a node trains with.
#include <utility>

#include "ravnest/stage/routes.h"
#include "ravnest/train/loop/model_call.h"
#include "ravnest/train/loop/prepare.h"
#include "ravnest/train/loop/trainer.h"

namespace ravnest::train {
Status Trainer::load_data() {
  if (!node_->is_root() && !node_->is_leaf()) return {};
  data::Share share;
  if (config_.data.shard.value_or(false))
    share = {node_->cluster(), static_cast<std::int64_t>(node_->plan().clusters.size())};
  auto training = load_batches(config_.data, config_, share, "clusters");
  Status wrong = training.status();
  if (training.ok()) training_ = std::move(*training);
  if (!config_.validation) return wrong;
  auto validation = load_batches(*config_.validation, config_, {}, "clusters");
  if (validation.ok()) validation_ = std::move(*validation);
  return line_by_line(wrong, validation.status());
}

Result<TrainingOptions> Trainer::training_options(const TrainerOptions& options) const {
  const ir::StageInfo stage = worker::stage_of(node_->engine());
  auto made = common_options(config_, node_->engine());
  if (!made.ok()) return made.status();
  TrainingOptions training_options = std::move(*made);
  if (node_->is_root()) {
    if (Status one = check_one_input(stage.train_call); !one.ok()) return one;
  }
  if (node_->is_leaf()) {
    auto criterion = criterion_of(stage, config_, node_->name(), node_->name_of(0), training_, validation_);
    if (!criterion.ok()) return criterion.status();
    training_options.criterion = std::move(*criterion);
  }
  const auto schedule = stage::parse_schedule(config_.schedule);
  if (!schedule.ok()) return schedule.status();
  training_options.pipeline.schedule = *schedule;
  training_options.pipeline.recompute = config_.recompute;
  training_options.microbatches = static_cast<std::uint32_t>(config_.microbatches);
  training_options.pipeline.reduce_factor = static_cast<std::uint64_t>(config_.reduce_factor);
  const auto average = stage::parse_average_mode(config_.average);
  if (!average.ok()) return average.status();
  training_options.pipeline.average = *average;
  training_options.pipeline.average_optimizer = config_.average_optim;
  if (config_.outer) training_options.pipeline.outer = {true, config_.outer->momentum, config_.outer->rate};
  training_options.settings = {{"update_frequency", std::to_string(config_.update_frequency)},
                               {"microbatches", std::to_string(config_.microbatches)},
                               {"shard", config_.data.shard.value_or(false) ? "true" : "false"}};
  training_options.record.progress = node_->is_root() ? options.progress : nullptr;
  return training_options;
}

Result<Trainer> Trainer::prepare(Node& node, const TrainConfig& config, TrainerOptions options) {
  Trainer trainer(node, config);
  const auto given_up = [&](const Status& failure) {
    node.stop({text("failed: ", failure.message())});
    return failure;
  };
  if (Status loaded = trainer.load_data(); !loaded.ok()) return given_up(all_that_is_wrong(loaded, config));
  auto training_options = trainer.training_options(options);
  if (!training_options.ok()) return given_up(training_options.status());
  node.configure(std::move(*training_options));
  node.record().stop_at_nan(config.stop_at_nan);
  return trainer;
}

}  // namespace ravnest::train
