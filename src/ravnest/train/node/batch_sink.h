// Where a training loop puts its batches: a node of a pipeline (node.h), or whatever else trains on them.
//
// For one thread, the one that runs the loop. What waits asks `poll` in between: where that fails, so does the wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/train/node/run_record.h"
#include "ravnest/wire/message.h"

namespace ravnest::train {

// What of an epoch was trained on before the run was interrupted, and is not fed.
struct LeftOut {
  std::uint64_t samples = 0;      // of all who feed
  std::uint64_t first_batch = 0;  // of them, those of its first batch
};

struct Batch {
  wire::PassKind kind = wire::PassKind::kTrain;
  std::vector<at::Tensor> inputs;        // the model's, flat; undefined for those that are no tensors
  std::uint64_t epoch = 0;               // or the number of the sweep
  std::uint64_t index = 0;               // in it
  std::uint64_t digest = 0;              // labels.h
  std::uint64_t of_all = 0;              // samples of all who feed, where that was asked for; else 0
  std::optional<LeftOut> left_out = {};  // the first batch where the run goes on in the middle of an epoch
};

using Poll = std::function<Status()>;

// What the batch, of so many samples of all who feed, is to where the data stand.
inline void count_samples(checkpoint::DataPosition& position, const Batch& batch, std::uint64_t samples) {
  if (batch.left_out) {
    position.samples = batch.left_out->samples;
    position.batch = batch.left_out->first_batch;
  }
  position.count_samples(batch.index, samples);
}

class BatchSink {
 public:
  virtual ~BatchSink() = default;

  // How many samples all who feed have for this batch, which is fed or left out next: asked on all of them, once.
  virtual Result<std::uint64_t> samples_of_all(const Batch& batch, const Poll& poll) = 0;
  // Waits for room.
  virtual Status feed(const Batch& batch, const Poll& poll) = 0;
  // All batches of the sweep were fed.
  virtual Status end_sweep(Sweep sweep) = 0;
  // Until all that was fed is computed.
  virtual Status drain(const Poll& poll) = 0;
  // Why the training is to end before its time, with a checkpoint, if it is.
  virtual std::optional<std::string> end_wanted() const { return std::nullopt; }
  // Whether others train beside it, with whom weights are averaged in rounds.
  virtual bool has_rounds() const = 0;
  // Until the others have trained what they train in this call too, and the weights of all are averaged: what is
  // validated after it is what is saved.
  virtual Status finish_rounds(const Poll& poll) = 0;

  // What became of the batches.
  virtual RunRecord& record() = 0;
  // A line for whoever watches the run.
  virtual void warn(const std::string& line) const = 0;
};

}  // namespace ravnest::train
