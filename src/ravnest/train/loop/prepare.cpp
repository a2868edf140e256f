#include "ravnest/train/loop/prepare.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/train/loop/criterion.h"
#include "ravnest/train/loop/model_call.h"
#include "ravnest/train/loop/rates.h"

namespace ravnest::train {
namespace {

constexpr const char* kAccuracyFile = "val_accuracies.txt";

Status as_sentence(const Status& lines) { return {lines.code(), in_one_sentence(lines.message())}; }

struct Steering {
  std::unique_ptr<optim::Optimizer> optimizer;
  std::function<void(std::uint64_t)> rates;  // of the optimizer, where there is a schedule
};

// For a schedule to be tried on.
std::unique_ptr<optim::Optimizer> any_optimizer() { return *optim::make_optimizer("SGD", {{"lr", 1.0}}); }

// With all that is wrong: a schedule is looked at even where there is no optimizer for it.
Result<Steering> make_steering(const TrainConfig& config) {
  auto made = optim::make_optimizer(config.optimizer.name, config.optimizer.options);
  Status wrong = config.optimizer.lines.at(made.status());
  Steering steering{made.ok() ? std::move(*made) : any_optimizer(), {}};
  if (config.lr_schedule) {
    auto rates = make_rates(*config.lr_schedule, *steering.optimizer);
    wrong = line_by_line(wrong, config.lr_schedule->lines.at(rates.status()));
    if (rates.ok()) steering.rates = std::move(*rates);
  }
  if (!wrong.ok()) return wrong;
  return steering;
}

}  // namespace

Result<TrainConfig> read_settings(const std::filesystem::path& path) {
  return read_train_config(path, [](const TrainConfig& config, Complaints& complaints) {
    config.optimizer.lines.add_to(complaints,
                                  optim::make_optimizer(config.optimizer.name, config.optimizer.options).status());
    if (!config.lr_schedule) return;
    const auto optimizer = any_optimizer();
    config.lr_schedule->lines.add_to(complaints, make_rates(*config.lr_schedule, *optimizer).status());
  });
}

Result<BatchedData> load_batches(const DataConfig& config, const TrainConfig& run, data::Share share,
                                 std::string_view sharers) {
  auto samples = data::load_dataset(config.options);
  if (!samples.ok()) return config.lines.at(samples.status());
  const std::int64_t size = samples->size();
  if (share.parts > 1 && size < share.parts) {
    return config.lines.at(invalid("there are ", size, " samples for ", share.parts, " ", sharers,
                                   ", which is less than one sample for each: take fewer ", sharers, ", or more data"));
  }
  return BatchedData{std::move(*samples), data::Batches(size, run.batch_size, config.shuffle, run.seed, share)};
}

Status all_that_is_wrong(const Status& loading, const TrainConfig& config) {
  return as_sentence(line_by_line(loading, make_steering(config).status()));
}

Result<TrainingOptions> common_options(const TrainConfig& config, const graph::Engine& engine) {
  TrainingOptions options;
  options.seed = config.seed;
  options.codec = config.compression;
  options.update_frequency = static_cast<std::uint64_t>(config.update_frequency);
  options.clip_value = config.clip_value;
  options.clip_norm = config.clip_norm;
  options.record.loss_file = config.loss_file;
  options.record.accuracy_file = config.loss_file.parent_path() / kAccuracyFile;
  options.scheduled = config.lr_schedule.has_value();
  if (config.checkpoint) {
    const auto every = checkpoint::parse_interval(config.checkpoint->every);
    if (!every.ok()) return every.status();
    options.checkpoints = {config.checkpoint->folder,
                           *every,
                           {static_cast<std::uint64_t>(config.checkpoint->keep),
                            static_cast<std::uint64_t>(config.checkpoint->keep_every), config.checkpoint->best},
                           config.checkpoint->resume.value_or(""),
                           config.checkpoint->environment};
  }
  auto steering = make_steering(config);
  if (!steering.ok()) return as_sentence(steering.status());
  const bool trains =
      std::ranges::any_of(engine.parameters(), [](const auto& named) { return named.second.requires_grad(); });
  if (!trains) return options;
  options.optimizer = std::move(steering->optimizer);
  if (config.lr_schedule)
    (config.lr_schedule->every == Every::kEpoch ? options.on_epochs : options.on_update) = std::move(steering->rates);
  return options;
}

std::map<std::string, std::string> recorded_settings(const TrainConfig& config,
                                                     const std::optional<BatchedData>& training) {
  std::map<std::string, std::string> settings = {{"epochs", std::to_string(config.epochs)},
                                                 {"val_freq", std::to_string(config.val_freq)},
                                                 {"batch_size", std::to_string(config.batch_size)},
                                                 {"lr_scheduler", "none"}};
  if (training) settings["batches_per_epoch"] = std::to_string(training->batches.per_epoch());
  if (config.lr_schedule) {
    std::vector<std::string> options;
    for (const auto& [name, value] : config.lr_schedule->options)
      options.push_back(text(name, "=", optim::words(value)));
    settings["lr_scheduler"] = text(config.lr_schedule->name, "(", join(options), ") per ",
                                    config.lr_schedule->every == Every::kEpoch ? "epoch" : "update");
  }
  return settings;
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
