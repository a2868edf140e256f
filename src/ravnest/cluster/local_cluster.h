// A cluster whose stages are threads of this process: for several GPUs of one machine, for trying things out, and for
// holding a pipeline against one process.
//
//   auto cluster = LocalCluster::open(std::move(stages), std::move(optimizers), options);
//   for (...) cluster->offer({.batch = i}, inputs, deadline);
//   cluster->drain(deadline);
//
// Each stage has a thread of its own, which does all its computing. Functions are safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/cluster/driver.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/inproc/network.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::cluster {

struct LocalClusterOptions {
  stage::Schedule schedule = stage::Schedule::kAsync;
  int window = 0;
  std::uint32_t microbatches = 1;  // that a batch is cut into
  // Of each stage; the criterion is the leaf's. What follows from the network and the schedule is filled in.
  worker::ModelWorkerOptions worker;
  std::function<void(wire::Report)> on_report;
  // Of the stages, in order, each with all others as its peers; empty: a network inside of the process.
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
};

class LocalCluster {
 public:
  // The engines have tensors of their own, not shared with each other. One optimizer per stage, which may be null.
  // kInvalid where the engines are not the stages of one model, in order.
  static Result<std::unique_ptr<LocalCluster>> open(std::vector<graph::Engine> stages,
                                                    std::vector<std::unique_ptr<optim::Optimizer>> optimizers,
                                                    LocalClusterOptions options);
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  ~LocalCluster() { end(); }

  // A batch, cut into passes (microbatches.h). `inputs` are the model's, flat; they must not be written to until the
  // passes are done. Otherwise as Driver's; a deadline that passes leaves the rest of the batch out.
  Status offer(const stage::Offer& batch, const std::vector<at::Tensor>& inputs, TimePoint deadline);
  // Until all that was offered is computed, and is in the weights of all stages.
  Status drain(TimePoint deadline);
  // Waits for all that was offered, and ends. What the stages' runs ended with, the first failure of them.
  Status close();
  // Ends whatever runs. The weights stay.
  void end();
  void stop(int stage, std::string reason) {
    stages_[static_cast<std::size_t>(stage)]->driver->stop(std::move(reason));
  }

  std::size_t size() const { return stages_.size(); }
  // To be looked at only while nothing is offered: the stage's thread uses them.
  const graph::Engine& engine(std::size_t stage) const { return stages_[stage]->engine; }
  worker::ModelWorker& worker(std::size_t stage) { return *stages_[stage]->worker; }
  DriverStatistics statistics(std::size_t stage) const { return stages_[stage]->driver->statistics(); }

 private:
  struct StageThread {
    explicit StageThread(graph::Engine own) : engine(std::move(own)) {}
    graph::Engine engine;
    std::unique_ptr<transport::Endpoint> endpoint;
    std::unique_ptr<worker::ModelWorker> worker;
    std::unique_ptr<Driver> driver;
    Status outcome;
    std::thread thread;
  };

  LocalCluster() = default;

  std::unique_ptr<transport::inproc::Network> network_;
  std::vector<std::unique_ptr<StageThread>> stages_;
  std::uint32_t microbatches_ = 1;
  std::atomic<bool> closed_ = false;
};

}  // namespace ravnest::cluster
