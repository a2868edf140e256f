// The training loop of the root: epochs over a source, validations in between and at the end.
//
// One for all who train: nodes with and without Python differ in their sources only. It knows of what trains no more
// than a BatchSink.
#pragma once

#include <cstdint>

#include "ravnest/base/status.h"
#include "ravnest/train/loop/batch_counts.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/loop/feeder.h"

namespace ravnest::train {

// What is gone through again and again. Both outlive the call that they are given to.
struct LoopSource {
  BatchSource* batches = nullptr;
  BatchCounts* counts = nullptr;
};

struct LoopOptions {
  LoopSource training;
  LoopSource validation;  // without batches: nothing is validated
  std::uint64_t epochs = 1;
  // 1: a validation after each epoch; N > 1: each time that Position::trained reaches a multiple of N. Always one at
  // the end, with the weights that are saved.
  std::uint64_t val_freq = 1;
};

struct Trained {
  double seconds = 0;
  std::uint64_t samples = 0;
};

// Returns when all is computed. A failure, of the poll too, leaves what was fed to the sink's own end. kInvalid where a
// source gives no batch.
Result<Trained> train_epochs(Feeder& feeder, const LoopOptions& options);

// One sweep over `source`; its accuracy is in the sink's record when all is computed. kInvalid where there is no batch.
Status sweep(Feeder& feeder, const LoopSource& source, Sweep purpose);

}  // namespace ravnest::train
