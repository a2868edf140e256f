// What a leaf without Python makes of a pass's outputs: a loss of those that train, a count of those that validate.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ravnest/train/config/loss_name.h"
#include "ravnest/train/loop/batched_data.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::train {

struct CriterionOptions {
  std::string node;  // the leaf and the root, for messages
  std::string root;
  LossKind loss = LossKind::kMse;
  std::size_t train_output = 0;  // which of the flat outputs goes to the loss (model_call.h)
  std::size_t eval_output = 0;
  std::optional<BatchedData> training;
  std::optional<BatchedData> validation;  // its batches come in the order of epoch 0, whatever the sweep
};

// Targets are found by the pass's epoch and index, and held against the root's by their digest. What is wrong (other
// labels, none at all, a loss that cannot be computed) leaves it as a std::runtime_error with a sentence for all nodes.
// Called by one thread at a time.
worker::Criterion make_criterion(CriterionOptions options);

}  // namespace ravnest::train
