// train.toml: what a node without Python trains on, how, and for how long. One file serves all nodes of a run.
//
//   epochs = 10               loss = "mse"                [optimizer]
//   batch_size = 64           schedule = "async"          name = "Adam"
//   seed = 42                 device = "cpu"              lr = 1e-3
//
//   [data]                    [validation]                [lr_schedule]
//   format = "npy"            format = "npy"              name = "StepLR"
//   inputs = "x.npy"          inputs = "x_val.npy"        step_size = 30
//   targets = "y.npy"         targets = "y_val.npy"       every = "epoch"
//   scale = 0.0625
//   rows = [0, 1078]
//
// loss, [optimizer] with its name, and [data] with its format and inputs have to be there; the defaults of the rest
// stand below. Optimizer and schedule take the options of torch's, which are checked where they are made
// (optim/optimizer.h), and whether rows, shape and classes fit the data is seen when those are read: `lines` are for
// saying then where in the file the wrong number stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/data/source.h"
#include "ravnest/optim/options.h"
#include "ravnest/train/config/complaints.h"
#include "ravnest/train/config/lines.h"
#include "ravnest/train/config/loss_name.h"

namespace ravnest::train {

struct OptimizerConfig {
  std::string name;
  optim::Options options;
  Lines lines = {};
};

enum class Every : std::uint8_t { kEpoch, kUpdate };

struct LrScheduleConfig {
  std::string name;
  optim::Options options;
  Every every = Every::kEpoch;
  Lines lines = {};
};

// Nesterov's momentum over rounds.
struct OuterOptimizerConfig {
  double momentum = 0.9;
  double rate = 0.7;
};

// [strategy]: how `ravnest train` spreads the training over ranks.
struct StrategyConfig {
  std::string name = "single";  // or "ddp"
  std::string units = "size";   // or "blocks": what the model is cut into for sending gradients
  bool broadcast_buffers = true;
  std::string backend = "auto";       // or "ring" or "nccl": what gradients go by
  bool trusted_network = false;       // NCCL, which does not encrypt, may go over the network
  std::string precision = "float32";  // or "bf16" or "fp16": what is computed in, beside 32-bit weights
  std::string float32 = "exact";      // or "tf32": how a GPU multiplies what is in 32 bits
};

// [checkpoint]: what stays of a run that is interrupted.
struct CheckpointConfig {
  std::filesystem::path folder;  // relative to where the node runs; or s3://BUCKET/FOLDER
  std::string every = "epoch";   // as checkpoint::parse_interval reads it
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  bool best = false;                                    // by the accuracy of validation
  std::optional<std::string> resume = {};               // as train::CheckpointOptions has it; none: not said
  std::map<std::string, std::string> environment = {};  // not of the file: the process's, for object storage
  Lines lines = {};
};

struct DataConfig {
  data::DataOptions options;
  bool shuffle = false;
  std::optional<bool> shard = {};  // each cluster trains on its share; of [data] only; nothing where it is not said
  Lines lines = {};
};

struct TrainConfig {
  std::int64_t epochs = 1;
  std::int64_t batch_size = 64;
  std::uint64_t seed = 0;
  LossKind loss = LossKind::kMse;
  std::string schedule = "async";  // or "sync" or "gpipe", as stage::parse_schedule reads it
  std::int64_t update_frequency = 1;
  std::int64_t microbatches = 1;  // at most the batch size
  std::int64_t val_freq = 1;
  bool save = false;
  bool stop_at_nan = false;         // a loss that is not finite ends the run
  double clip_value = 0;            // the most that an element of a gradient may be; 0: any
  double clip_norm = 0;             // the most that the norm of an update's gradients may be; 0: any
  codec::Codec compression;         // true in the file stands for "fp16", false for "none"
  std::int64_t reduce_factor = 0;   // updates between two rounds with other clusters; 0: a round per epoch
  std::string average = "overlap";  // or "drain", as stage::parse_average_mode reads it
  std::optional<OuterOptimizerConfig> outer;
  bool average_optim = false;  // and what the optimizer keeps
  bool recompute = false;
  int threads = 0;                                 // 0: this node's share of the machine's cores
  std::string device = "cpu";                      // or "cuda", or "cuda:1"
  std::filesystem::path loss_file = "losses.txt";  // relative to where the node runs, as all that it writes
  OptimizerConfig optimizer;
  std::optional<LrScheduleConfig> lr_schedule;
  DataConfig data;
  std::optional<DataConfig> validation;
  std::optional<StrategyConfig> strategy;
  std::optional<CheckpointConfig> checkpoint;
  // Of the keys that only pipelines know, those that the file has: `ravnest train` refuses them.
  std::vector<std::string> of_pipelines = {};
};

// Paths of data are relative to the file. kInvalid where it is not TOML, for keys that do not exist, values of another
// kind or out of their range, and what is missing: a line for each, with the file, the line, the key and what is
// allowed. Otherwise the failures of base/file.h. Does not look at the data files. `further` finds what is wrong beside
// that (Lines::add_to), and is asked only where something is.
using FurtherCheck = std::function<void(const TrainConfig&, Complaints&)>;
Result<TrainConfig> read_train_config(const std::filesystem::path& path, const FurtherCheck& further = {});
Result<TrainConfig> decode_train_config(std::string_view toml, const std::filesystem::path& path,
                                        const FurtherCheck& further = {});

}  // namespace ravnest::train
