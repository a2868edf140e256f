// From a config to what a node trains with.
#include <algorithm>
#include <utility>

#include "ravnest/stage/routes.h"
#include "ravnest/train/loop/criterion.h"
#include "ravnest/train/loop/model_call.h"
#include "ravnest/train/loop/rates.h"
#include "ravnest/train/loop/trainer.h"

namespace ravnest::train {
namespace {

constexpr const char* kAccuracyFile = "val_accuracies.txt";

Result<BatchedData> load(const DataConfig& config, const TrainConfig& run, data::Share share) {
  auto samples = data::load_dataset(config.options);
  if (!samples.ok()) return config.lines.at(samples.status());
  const std::int64_t size = samples->size();
  if (share.parts > 1 && size < share.parts) {
    return config.lines.at(invalid("shard = true, and ", size, " samples for ", share.parts,
                                   " clusters: at least one cluster would have none"));
  }
  return BatchedData{std::move(*samples), data::Batches(size, run.batch_size, config.shuffle, run.seed, share)};
}

bool has_something_to_train(const graph::Engine& engine) {
  return std::ranges::any_of(engine.parameters(), [](const auto& named) { return named.second.requires_grad(); });
}

}  // namespace

Status Trainer::load_data() {
  if (!node_->is_root() && !node_->is_leaf()) return {};
  data::Share share;
  if (config_.data.shard.value_or(false))
    share = {node_->cluster(), static_cast<std::int64_t>(node_->plan().clusters.size())};
  auto training = load(config_.data, config_, share);
  if (!training.ok()) return training.status();
  training_ = std::move(*training);
  if (!config_.validation) return {};
  auto validation = load(*config_.validation, config_, {});
  if (!validation.ok()) return validation.status();
  validation_ = std::move(*validation);
  return {};
}

Result<TrainingOptions> Trainer::training_options(const TrainerOptions& options) const {
  const ir::StageInfo stage = worker::stage_of(node_->engine());
  TrainingOptions training_options;
  if (node_->is_root()) {
    if (Status one = check_one_input(stage.train_call); !one.ok()) return one;
  }
  if (node_->is_leaf()) {
    const auto train_output = judged_output(stage.train_call);
    if (!train_output.ok()) return train_output.status();
    const auto eval_output = judged_output(stage.eval_call);
    if (!eval_output.ok()) return eval_output.status();
    training_options.criterion = make_criterion(
        {node_->name(), node_->name_of(0), config_.loss, *train_output, *eval_output, training_, validation_});
  }
  const auto schedule = stage::parse_schedule(config_.schedule);
  if (!schedule.ok()) return schedule.status();
  training_options.schedule = *schedule;
  training_options.seed = config_.seed;
  training_options.codec = config_.compression;
  training_options.recompute = config_.recompute;
  training_options.update_frequency = static_cast<std::uint64_t>(config_.update_frequency);
  training_options.microbatches = static_cast<std::uint32_t>(config_.microbatches);
  training_options.reduce_factor = static_cast<std::uint64_t>(config_.reduce_factor);
  const auto average = stage::parse_average_mode(config_.average);
  if (!average.ok()) return average.status();
  training_options.average = *average;
  training_options.average_optimizer = config_.average_optim;
  if (config_.outer) training_options.outer = {true, config_.outer->momentum, config_.outer->rate};
  training_options.settings = {{"update_frequency", std::to_string(config_.update_frequency)},
                               {"microbatches", std::to_string(config_.microbatches)},
                               {"shard", config_.data.shard.value_or(false) ? "true" : "false"}};
  training_options.record.loss_file = config_.loss_file;
  training_options.record.accuracy_file = config_.loss_file.parent_path() / kAccuracyFile;
  training_options.record.progress = node_->is_root() ? options.progress : nullptr;
  auto optimizer = optim::make_optimizer(config_.optimizer.name, config_.optimizer.options);
  if (!optimizer.ok()) return config_.optimizer.lines.at(optimizer.status());
  if (config_.lr_schedule) {
    auto rates = make_rates(*config_.lr_schedule, **optimizer);
    if (!rates.ok()) return rates.status();
    (config_.lr_schedule->every == Every::kEpoch ? training_options.on_epochs : training_options.on_update) =
        std::move(*rates);
  }
  if (has_something_to_train(node_->engine())) {
    training_options.optimizer = std::move(*optimizer);
  } else {
    training_options.on_epochs = training_options.on_update = nullptr;
  }
  return training_options;
}

Result<Trainer> Trainer::prepare(Node& node, const TrainConfig& config, TrainerOptions options) {
  Trainer trainer(node, config);
  const auto given_up = [&](const Status& failure) {
    node.stop({text("failed: ", failure.message())});
    return failure;
  };
  if (Status loaded = trainer.load_data(); !loaded.ok()) return given_up(loaded);
  auto training_options = trainer.training_options(options);
  if (!training_options.ok()) return given_up(training_options.status());
  node.configure(std::move(*training_options));
  node.record().stop_at_nan(config.stop_at_nan);
  return trainer;
}

}  // namespace ravnest::train
