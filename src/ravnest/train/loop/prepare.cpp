#include "ravnest/train/loop/prepare.h"

#include <algorithm>
#include <utility>

#include "ravnest/train/loop/criterion.h"
#include "ravnest/train/loop/model_call.h"
#include "ravnest/train/loop/rates.h"

namespace ravnest::train {
namespace {

constexpr const char* kAccuracyFile = "val_accuracies.txt";

}  // namespace

Result<BatchedData> load_batches(const DataConfig& config, const TrainConfig& run, data::Share share,
                                 std::string_view sharers) {
  auto samples = data::load_dataset(config.options);
  if (!samples.ok()) return config.lines.at(samples.status());
  const std::int64_t size = samples->size();
  if (share.parts > 1 && size < share.parts) {
    return config.lines.at(invalid("there are ", size, " samples for ", share.parts, " ", sharers,
                                   ": at least one of them would have none"));
  }
  return BatchedData{std::move(*samples), data::Batches(size, run.batch_size, config.shuffle, run.seed, share)};
}

Result<TrainingOptions> common_options(const TrainConfig& config, const graph::Engine& engine) {
  TrainingOptions options;
  options.seed = config.seed;
  options.codec = config.compression;
  options.update_frequency = static_cast<std::uint64_t>(config.update_frequency);
  options.record.loss_file = config.loss_file;
  options.record.accuracy_file = config.loss_file.parent_path() / kAccuracyFile;
  auto optimizer = optim::make_optimizer(config.optimizer.name, config.optimizer.options);
  if (!optimizer.ok()) return config.optimizer.lines.at(optimizer.status());
  std::function<void(std::uint64_t)> rates;
  if (config.lr_schedule) {
    auto made = make_rates(*config.lr_schedule, **optimizer);
    if (!made.ok()) return made.status();
    rates = std::move(*made);
  }
  const bool trains =
      std::ranges::any_of(engine.parameters(), [](const auto& named) { return named.second.requires_grad(); });
  if (!trains) return options;
  options.optimizer = std::move(*optimizer);
  if (config.lr_schedule) (config.lr_schedule->every == Every::kEpoch ? options.on_epochs : options.on_update) = rates;
  return options;
}

Result<worker::Criterion> criterion_of(const ir::StageInfo& model, const TrainConfig& config, const std::string& node,
                                       const std::string& root, const std::optional<BatchedData>& training,
                                       const std::optional<BatchedData>& validation) {
  const auto train_output = criterion_output(model.train_call);
  if (!train_output.ok()) return train_output.status();
  const auto eval_output = criterion_output(model.eval_call);
  if (!eval_output.ok()) return eval_output.status();
  return make_criterion({node, root, config.loss, *train_output, *eval_output, training, validation});
}

}  // namespace ravnest::train
