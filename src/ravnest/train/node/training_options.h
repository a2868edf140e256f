// All that a model is trained with, whoever trains it: a node of a pipeline, a rank of a data-parallel run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ravnest/average/averager.h"
#include "ravnest/codec/codec.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/stage/stage.h"
#include "ravnest/train/node/checkpoint_options.h"
#include "ravnest/train/node/run_record.h"
#include "ravnest/worker/criterion.h"
#include "ravnest/worker/snapshots.h"

namespace ravnest::train {

// What only pipelines know.
struct PipelineOptions {
  stage::Schedule schedule = stage::Schedule::kAsync;
  int window = 0;  // passes in flight; 0: the plan's
  bool recompute = false;
  // With other clusters:
  std::uint64_t reduce_factor = 0;  // updates between two rounds; 0: a round per epoch
  stage::AverageMode average = stage::AverageMode::kOverlap;
  average::OuterOptimizerOptions outer;
  bool average_optimizer = false;  // and what the optimizer keeps
};

// The schedule, the seed and the codec have to be the same on all that train together.
struct TrainingOptions {
  std::unique_ptr<optim::Optimizer> optimizer;  // none: where there is nothing to train, or for who does not train
  worker::Criterion criterion;                  // of the leaf
  std::uint64_t seed = 0;
  codec::Codec codec;  // of what is sent
  std::uint64_t update_frequency = 1;
  std::uint32_t microbatches = 1;
  double clip_value = 0;  // 0: not; the most that an element of a gradient may be
  double clip_norm = 0;   // 0: not; the most that the norm of all gradients here may be
  // Called by the compute thread when another epoch is over, with how many are: before the first update of the next
  // one, and at the end of a call.
  std::function<void(std::uint64_t epochs)> on_epochs;
  std::function<void(std::uint64_t updates)> on_update;  // the same after each update
  RunRecordOptions record;
  CheckpointOptions checkpoints;
  bool scheduled = false;                       // on_epochs or on_update set learning rates
  worker::OwnState criterion_state = {};        // what the criterion keeps, for checkpoints
  std::map<std::string, std::string> settings;  // what else has to be the same everywhere, by name
  PipelineOptions pipeline;

  // What `clip_value` and `clip_norm` do to all gradients of an update; nothing where they are 0.
  std::function<void(std::vector<at::Tensor>& gradients)> clipping() const;
};

}  // namespace ravnest::train
