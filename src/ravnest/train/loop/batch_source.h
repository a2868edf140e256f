// What a training loop is fed from: batches in order, one epoch or one sweep over validation data after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::train {

struct SourceBatch {
  std::vector<at::Tensor> inputs;  // the model's, flat; undefined for those that are no tensors
  std::uint64_t digest = 0;        // of its labels (labels.h); 0: not known
};

// For one thread. A source of the user's may also throw: the loop lets that pass.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Begins epoch or sweep `number`, from 0; what is left of the one before is dropped.
  virtual Status begin(std::uint64_t number) = 0;
  // None where it is over.
  virtual Result<std::optional<SourceBatch>> next() = 0;
  // Leaves out the next ones, so many of which there are: they were trained on before the run was interrupted.
  virtual Status skip(std::uint64_t batches) {
    for (; batches > 0; --batches) {
      if (const auto batch = next(); !batch.ok()) return batch.status();
    }
    return {};
  }
  // In each epoch, as far as that can be known beforehand; 0: unknown.
  virtual std::uint64_t batches() const = 0;
};

}  // namespace ravnest::train
