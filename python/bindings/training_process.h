// What nodes and ranks have in common for Python: a process that a training loop feeds.
#pragma once

#include <memory>

#include "bindings.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/report/progress.h"
#include "ravnest/train/loop/batch_source.h"
#include "ravnest/train/loop/feeder.h"
#include "ravnest/train/node/batch_sink.h"
#include "ravnest/train/node/steered_optimizer.h"
#include "ravnest/train/node/training_options.h"
#include "training_options.h"

namespace ravnest::python {

// _core.TrainingProcess. Whoever derives from it releases the GIL before its own parts end: their threads may be about
// to call Python.
class TrainingProcess {
 public:
  TrainingProcess() = default;
  TrainingProcess(const TrainingProcess&) = delete;
  TrainingProcess& operator=(const TrainingProcess&) = delete;
  virtual ~TrainingProcess() = default;

  virtual train::BatchSink& sink() = 0;
  virtual const graph::Engine& engine() const = 0;
  // What the loop goes through in the source's place; null: the source itself.
  // `unit` is what going through it once is called.
  virtual std::unique_ptr<train::BatchSource> joint(train::BatchSource& /*source*/, const std::string& /*unit*/) {
    return nullptr;
  }

  // What the process is to be configured with. The progress is kept here.
  train::TrainingOptions options_of(const PyTrainingOptions& given, bool shows_progress);

  std::unique_ptr<report::Progress> progress;
  std::shared_ptr<train::Steering> steering = std::make_shared<train::Steering>();
  optim::Optimizer* optimizer = nullptr;  // the process's, once it is configured
  std::shared_ptr<train::Position> position = std::make_shared<train::Position>();
};

}  // namespace ravnest::python
