// From a config to what anybody trains with: a node of a pipeline, a rank of a data-parallel run.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/data/batches.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/train/config/config.h"
#include "ravnest/train/loop/batched_data.h"
#include "ravnest/train/node/training_options.h"
#include "ravnest/worker/criterion.h"

namespace ravnest::train {

// read_train_config, whose complaints are those of the optimizer and the schedule too. Without any of its own it leaves
// them to whoever makes the two, beside what is wrong with the data.
Result<TrainConfig> read_settings(const std::filesystem::path& path);

// The data set, cut into batches. `sharers` are those between whom the shares are: "clusters", "ranks". kInvalid where
// somebody would have no sample.
Result<BatchedData> load_batches(const DataConfig& config, const TrainConfig& run, data::Share share,
                                 std::string_view sharers);

// What else is wrong where loading the data has failed so, all in one sentence: what is told to others is one.
Status all_that_is_wrong(const Status& loading, const TrainConfig& config);

// All but the criterion, the progress, and what only pipelines know; one sentence for all that is wrong. Where the
// engine, a model or a stage of one, has nothing to train there is no optimizer.
Result<TrainingOptions> common_options(const TrainConfig& config, const graph::Engine& engine);

// What checkpoints say of the run beside what all nodes have in common (checkpoint/settings.h). The data are those that
// are fed here, if any.
std::map<std::string, std::string> recorded_settings(const TrainConfig& config,
                                                     const std::optional<BatchedData>& training);

// What makes a loss of the outputs of a model that is called so. `node` has the labels, `root` the inputs, for
// messages.
Result<worker::Criterion> criterion_of(const ir::StageInfo& model, const TrainConfig& config, const std::string& node,
                                       const std::string& root, const std::optional<BatchedData>& training,
                                       const std::optional<BatchedData>& validation);

}  // namespace ravnest::train
