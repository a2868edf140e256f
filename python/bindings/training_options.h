// How a node trains, as Python says it: names for what is chosen, and functions of the user's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "callbacks.h"
#include "ravnest/train/node/node.h"
#include "ravnest/train/node/steered_optimizer.h"

namespace ravnest::python {

// Its fields are those of train::TrainingOptions, which says what they mean.
struct PyTrainingOptions {
  std::optional<pybind11::function> criterion;  // callbacks.h; of the leaf
  OptimizerForm optimizer;
  std::string schedule = "async";
  int window = 0;
  std::uint64_t seed = 0;
  std::string compression = "none";
  bool recompute = false;
  std::uint64_t update_frequency = 1;
  std::uint32_t microbatches = 1;
  std::uint64_t reduce_factor = 0;
  std::string average = "overlap";
  std::optional<std::pair<double, double>> nesterov;  // momentum and rate; none: rounds give the mean itself
  bool average_optim = false;
  double clip_value = 0;
  double clip_norm = 0;
  std::optional<pybind11::function> on_epochs;
  std::optional<pybind11::function> on_update;
  std::string loss_file = "losses.txt";
  std::string accuracy_file = "val_accuracies.txt";
  std::map<std::string, std::string> settings;
  bool scheduled = false;
  // Functions of a criterion that keeps something: capture() -> ({name: tensor}, text), and restore(tensors, text).
  std::optional<std::pair<pybind11::function, pybind11::function>> criterion_state;
  std::string checkpoint;  // a folder, or s3://BUCKET/FOLDER; empty: there are none
  std::string checkpoint_every = "epoch";
  std::uint64_t checkpoint_keep = 2;
  std::uint64_t checkpoint_keep_every = 0;
  bool checkpoint_best = false;
  std::string resume;
  std::map<std::string, std::string> environment;  // for object storage
};

// ValueError for names that do not exist, and for what does not go together. An optimizer by name takes what `steering`
// is told while it runs.
train::TrainingOptions training_options_of(const PyTrainingOptions& given,
                                           const std::shared_ptr<train::Steering>& steering);

// _core.TrainingOptions
void bind_training_options(pybind11::module_& module);

}  // namespace ravnest::python
