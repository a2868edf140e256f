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
#include "ravnest/train/node/run_record.h"
#include "ravnest/wire/message.h"

namespace ravnest::train {

struct Batch {
  wire::PassKind kind = wire::PassKind::kTrain;
  std::vector<at::Tensor> inputs;  // the model's, flat; undefined for those that are no tensors
  std::uint64_t epoch = 0;         // or the number of the sweep
  std::uint64_t index = 0;         // in it
  std::uint64_t digest = 0;        // labels.h
};

using Poll = std::function<Status()>;

class BatchSink {
 public:
  virtual ~BatchSink() = default;

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
