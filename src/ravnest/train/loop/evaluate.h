// How good a whole model is, in one process.
#pragma once

#include <cstdint>
#include <optional>

#include "ravnest/base/status.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/train/config/loss_name.h"
#include "ravnest/train/loop/batched_data.h"
#include "ravnest/train/node/node.h"

namespace ravnest::train {

struct Evaluation {
  std::uint64_t samples = 0;
  std::optional<double> accuracy;  // in percent; none where nothing can be counted (losses.h)
  double loss = 0;                 // the mean over all samples
};

// Runs the model in eval mode over all batches. kInvalid where model, data and loss do not fit each other,
// kUnsupported for models with several inputs; `poll` is asked between batches.
Result<Evaluation> evaluate(const graph::Engine& engine, const BatchedData& data, LossKind loss, const Poll& poll);

}  // namespace ravnest::train
