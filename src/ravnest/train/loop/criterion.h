// What a leaf without Python makes of a pass's outputs: a loss of those that train, a count of those that validate.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ravnest/data/batches.h"
#include "ravnest/data/dataset.h"
#include "ravnest/train/config/loss_name.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::train {

// Samples, and which of them make up which batch. A plain value; copying it shares the tensors.
struct BatchedData {
  data::Dataset samples;
  data::Batches batches;

  // Batch number `index` of `epoch`; without rows from the epoch's end on.
  data::Dataset batch(std::uint64_t epoch, std::uint64_t index) const {
    return data::batch(samples, batches.rows(epoch, index));
  }
};

struct CriterionOptions {
  std::string node;  // the leaf and the root, for messages
  std::string root;
  LossKind loss = LossKind::kMse;
  std::size_t train_output = 0;  // which of the flat outputs is judged (model_call.h)
  std::size_t eval_output = 0;
  std::optional<BatchedData> training;
  std::optional<BatchedData> validation;  // its batches come in the order of epoch 0, whatever the sweep
};

// Targets are found by the pass's epoch and index, and held against the root's by their digest. What is wrong (other
// labels, none at all, a loss that cannot be computed) leaves it as a std::runtime_error with a sentence for all nodes.
// Called by one thread at a time.
worker::Criterion make_criterion(CriterionOptions options);

}  // namespace ravnest::train
