#include "ravnest/train/config/config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/interval.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/train/config/section.h"

namespace ravnest::train {
namespace {

namespace fs = std::filesystem;
using Keys = std::span<const std::string_view>;

constexpr std::array<std::string_view, 27> kKeys = {
    "epochs",        "batch_size", "seed",        "loss",        "schedule",      "update_frequency", "microbatches",
    "val_freq",      "save",       "stop_at_nan", "compression", "reduce_factor", "average",          "outer",
    "average_optim", "recompute",  "threads",     "device",      "loss_file",     "optimizer",        "lr_schedule",
    "data",          "validation", "strategy",    "clip_value",  "clip_norm",     "checkpoint",
};
// They mean nothing where one process has the whole model.
constexpr std::array<std::string_view, 7> kPipelineKeys = {"schedule", "microbatches",  "reduce_factor", "average",
                                                           "outer",    "average_optim", "recompute"};
constexpr std::array<std::string_view, 7> kStrategyKeys = {
    "name", "units", "broadcast_buffers", "backend", "trusted_network", "precision", "float32"};
constexpr std::array<std::string_view, 2> kStrategies = {"single", "ddp"};
constexpr std::array<std::string_view, 3> kBackends = {"auto", "ring", "nccl"};
constexpr std::array<std::string_view, 3> kPrecisions = {"float32", "bf16", "fp16"};
constexpr std::array<std::string_view, 2> kFloat32Modes = {"exact", "tf32"};
constexpr std::array<std::string_view, 2> kUnitRules = {"size", "blocks"};
constexpr std::array<std::string_view, 6> kCheckpointKeys = {"folder", "every", "keep", "keep_every", "best", "resume"};
constexpr std::array<std::string_view, 1> kBestBy = {"val_accuracy"};
constexpr std::array<std::string_view, 3> kOuterKeys = {"name", "momentum", "rate"};
constexpr std::array<std::string_view, 1> kOuterNames = {"nesterov"};
constexpr std::array<std::string_view, 2> kAverageModes = {"overlap", "drain"};
constexpr std::array<std::string_view, 10> kDataKeys = {"format", "inputs",  "targets",      "shuffle", "shape",
                                                        "scale",  "one_hot", "inputs_dtype", "rows",    "shard"};
constexpr std::array<std::string_view, 3> kSchedules = {"async", "sync", "gpipe"};
constexpr Between kCount = {.least = 1};
constexpr std::int64_t kMostThreads = 1024;
// Far beyond any batch or data set, and far below where sums of them could overflow.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;

template <class T, class U>
void set(T& setting, const std::optional<U>& value) {
  if (value) setting = static_cast<T>(*value);
}

LossKind read_loss(const Section& top) {
  if (!top.has("loss")) top.lacks("loss", text("one of ", join(loss_names())));
  const std::optional<std::string> name = top.word("loss");
  if (!name) return {};
  const Result<LossKind> loss = parse_loss(*name);
  if (!loss.ok()) top.fail("loss", loss.status().message());
  return loss.ok() ? *loss : LossKind();
}

codec::Codec read_compression(const Section& top) {
  if (!top.has("compression")) return {};
  if (top.is_flag("compression")) return codec::codec_for(*top.flag("compression"));
  const std::optional<std::string> name = top.word("compression");
  if (!name) return {};
  const Result<codec::Codec> codec = codec::parse_codec(*name);
  if (!codec.ok()) top.fail("compression", codec.status().message());
  return codec.ok() ? *codec : codec::Codec();
}

std::string read_device(const Section& top) {
  const std::string device = top.word("device").value_or("cpu");
  const std::string_view number = std::string_view(device).substr(std::min<std::size_t>(device.size(), 5));
  const bool numbered = device.starts_with("cuda:") && !number.empty() && number.size() < 4 &&
                        std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (device != "cpu" && device != "cuda" && !numbered)
    top.fail("device", text("there is no device \"", printable(device.substr(0, 60)),
                            "\"; there are \"cpu\", \"cuda\" and \"cuda:1\" and so on"));
  return device;
}

OptimizerConfig read_optimizer(const Section& top) {
  if (!top.has("optimizer"))
    top.lacks("[optimizer]", "a table with the optimizer's name and its options, such as name = \"Adam\"");
  const std::optional<Section> section = top.section("optimizer");
  if (!section) return {};
  if (!section->has("name")) section->lacks("name", "an optimizer of torch.optim, such as \"Adam\"");
  return {section->word("name").value_or(""), section->options(std::array<std::string_view, 1>{"name"}),
          section->lines()};
}

std::optional<LrScheduleConfig> read_lr_schedule(const Section& top) {
  const std::optional<Section> section = top.section("lr_schedule");
  if (!section) return std::nullopt;
  if (!section->has("name")) section->lacks("name", "a schedule of torch.optim.lr_scheduler, such as \"StepLR\"");
  const auto every = section->word("every", std::array<std::string_view, 2>{"epoch", "update"});
  return LrScheduleConfig{section->word("name").value_or(""),
                          section->options(std::array<std::string_view, 2>{"name", "every"}),
                          every == "update" ? Every::kUpdate : Every::kEpoch, section->lines()};
}

std::optional<OuterOptimizerConfig> read_outer(const Section& top) {
  const std::optional<Section> section = top.section("outer", kOuterKeys);
  if (!section) return std::nullopt;
  if (!section->has("name")) section->lacks("name", "\"nesterov\"");
  (void)section->word("name", kOuterNames);
  OuterOptimizerConfig config;
  set(config.momentum, section->number("momentum", {0, 1, true}));
  set(config.rate, section->number("rate", {0}));
  return config;
}

std::vector<fs::path> read_paths(const Section& section, std::string_view key, const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& each : section.words(key).value_or(std::vector<std::string>()))
    paths.push_back(folder / each);
  return paths;
}

void read_rows(const Section& section, data::DataOptions& options) {
  const auto rows = section.wholes("rows", {0, kMostSamples});
  if (!rows) return;
  if (rows->size() != 2 || (*rows)[0] >= (*rows)[1])
    return section.fail("rows", "has to be the first row and the one after the last, such as [0, 1000]");
  options.first = (*rows)[0];
  options.last = (*rows)[1];
}

void read_files(const Section& section, const fs::path& folder, data::DataOptions& options) {
  const std::vector<std::string_view> formats = data::format_names();
  if (!section.has("format")) section.lacks("format", text("one of ", join(formats)));
  const std::optional<std::string> format = section.word("format", formats);
  if (!section.has("inputs")) section.lacks("inputs", "a file, or a list of files");
  options.inputs = read_paths(section, "inputs", folder);
  options.targets = read_paths(section, "targets", folder);
  if (!format) return;  // it says whether there are targets apart
  options.format = *format;
  if (data::has_own_targets(options.format)) {
    if (section.has("targets"))
      section.fail("targets", text("files of format \"", options.format, "\" have inputs and targets; leave it out"));
  } else if (!section.has("targets")) {
    section.lacks("targets", "a file, or a list of files");
  }
}

DataConfig read_data(const Section& section, const fs::path& folder) {
  DataConfig config;
  config.lines = section.lines();
  data::DataOptions& options = config.options;
  read_files(section, folder, options);
  set(config.shuffle, section.flag("shuffle"));
  config.shard = section.flag("shard");
  set(options.shape, section.wholes("shape", {1, kMostSamples}));
  set(options.scale, section.number("scale"));
  set(options.one_hot, section.whole("one_hot", {0, kMostSamples}));
  set(options.inputs_dtype, section.word("inputs_dtype"));
  read_rows(section, options);
  return config;
}

std::optional<StrategyConfig> read_strategy(const Section& top) {
  const std::optional<Section> section = top.section("strategy", kStrategyKeys);
  if (!section) return std::nullopt;
  StrategyConfig config;
  set(config.name, section->word("name", kStrategies));
  set(config.units, section->word("units", kUnitRules));
  set(config.broadcast_buffers, section->flag("broadcast_buffers"));
  set(config.backend, section->word("backend", kBackends));
  set(config.trusted_network, section->flag("trusted_network"));
  set(config.precision, section->word("precision", kPrecisions));
  set(config.float32, section->word("float32", kFloat32Modes));
  return config;
}

std::optional<CheckpointConfig> read_checkpoint(const Section& top) {
  const std::optional<Section> section = top.section("checkpoint", kCheckpointKeys);
  if (!section) return std::nullopt;
  CheckpointConfig config;
  config.lines = section->lines();
  if (!section->has("folder")) section->lacks("folder", "the folder that checkpoints go into, such as \"checkpoints\"");
  set(config.folder, section->word("folder"));
  if (const std::string& folder = config.folder.string(); folder.find("://") != std::string::npos) {
    if (const Status name = object_store::parse_s3_url(folder).status(); !name.ok())
      section->fail("folder", name.message());
  }
  if (const auto every = section->word("every")) {
    if (const auto parsed = checkpoint::parse_interval(*every); !parsed.ok())
      section->fail("every", parsed.status().message());
    config.every = *every;
  }
  set(config.keep, section->whole("keep", {.least = 0}));
  set(config.keep_every, section->whole("keep_every", {.least = 0}));
  config.best = section->word("best", kBestBy).has_value();
  if (section->is_flag("resume"))
    config.resume = *section->flag("resume") ? "newest" : "";
  else if (const auto said = section->word("resume"))
    config.resume = checkpoint::resume_word(*said);
  return config;
}

TrainConfig read_top(const Section& top, const fs::path& folder) {
  TrainConfig config;
  set(config.epochs, top.whole("epochs", kCount));
  const std::optional<std::int64_t> batch_size = top.whole("batch_size", {1, kMostSamples});
  set(config.batch_size, batch_size);
  set(config.seed, top.whole("seed", {.least = 0}));
  config.loss = read_loss(top);
  set(config.schedule, top.word("schedule", kSchedules));
  const std::int64_t most_parts = top.has("batch_size") && !batch_size ? kMostSamples : config.batch_size;
  set(config.update_frequency, top.whole("update_frequency", kCount));
  set(config.microbatches, top.whole("microbatches", {1, most_parts}));
  set(config.val_freq, top.whole("val_freq", kCount));
  set(config.save, top.flag("save"));
  set(config.stop_at_nan, top.flag("stop_at_nan"));
  set(config.clip_value, top.number("clip_value", {0}));
  set(config.clip_norm, top.number("clip_norm", {0}));
  config.compression = read_compression(top);
  set(config.reduce_factor, top.whole("reduce_factor", kCount));
  set(config.average, top.word("average", kAverageModes));
  config.outer = read_outer(top);
  set(config.average_optim, top.flag("average_optim"));
  set(config.recompute, top.flag("recompute"));
  set(config.threads, top.whole("threads", {0, kMostThreads}));
  config.device = read_device(top);
  set(config.loss_file, top.word("loss_file"));
  config.optimizer = read_optimizer(top);
  config.lr_schedule = read_lr_schedule(top);
  const std::optional<Section> data = top.section("data", kDataKeys);
  if (!top.has("data")) top.lacks("[data]", "a table with the format and the files of what is trained on");
  if (data) config.data = read_data(*data, folder);
  if (const auto validation = top.section("validation", kDataKeys)) {
    if (validation->has("shard"))
      validation->fail("shard", "every cluster validates on all of these data; leave it out");
    config.validation = read_data(*validation, folder);
  }
  config.strategy = read_strategy(top);
  config.checkpoint = read_checkpoint(top);
  for (const std::string_view key : kPipelineKeys) {
    if (top.has(key)) config.of_pipelines.emplace_back(key);
  }
  return config;
}

}  // namespace

Result<TrainConfig> decode_train_config(std::string_view toml, const fs::path& path, const FurtherCheck& further) {
  const Result<TomlTable> table = parse_toml(toml, path.string());
  if (!table.ok()) return table.status();
  Complaints complaints(path.string());
  TrainConfig config = read_top(Section(*table, complaints, "", 1, kKeys), path.parent_path());
  if (complaints.status().ok()) return config;
  if (further) further(config, complaints);
  return complaints.status();
}

Result<TrainConfig> read_train_config(const fs::path& path, const FurtherCheck& further) {
  const Result<std::string> toml = read_file(path);
  if (!toml.ok()) return toml.status();
  return decode_train_config(*toml, path, further);
}

}  // namespace ravnest::train
