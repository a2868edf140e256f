#include "ravnest/cluster/local_cluster.h"

#include <ATen/Parallel.h>

#include <utility>

#include "ravnest/cluster/microbatches.h"
#include "ravnest/stage/routes.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::cluster {
namespace {

constexpr auto kGoodbyeTime = std::chrono::seconds(2);

std::vector<std::string> names_of(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(text("stage_", i));
  return names;
}

Status check_chain(const std::vector<graph::Engine>& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const int index = stages[i].stage() ? stages[i].stage()->index : 0;
    const int count = stages[i].stage() ? stages[i].stage()->count : 1;
    if (index != static_cast<int>(i) || count != static_cast<int>(stages.size())) {
      return invalid("engine ", i, " of ", stages.size(), " is stage ", index, " of ", count,
                     "; a cluster takes all stages of one model, in order");
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LocalCluster>> LocalCluster::open(std::vector<graph::Engine> stages,
                                                         std::vector<std::unique_ptr<optim::Optimizer>> optimizers,
                                                         LocalClusterOptions options) {
  if (Status status = check_chain(stages); !status.ok()) return status;
  if (optimizers.size() != stages.size()) {
    return invalid(stages.size(), " stages take as many optimizers, not ", optimizers.size());
  }
  std::unique_ptr<LocalCluster> cluster(new LocalCluster);
  cluster->microbatches_ = options.microbatches;
  const bool within = options.endpoints.empty();
  std::vector<std::string> names = names_of(stages.size());
  if (within) {
    cluster->network_ = std::make_unique<transport::inproc::Network>();
    for (const std::string& name : names) {
      std::vector<std::string> peers = names;
      std::erase(peers, name);
      options.endpoints.push_back(cluster->network_->open(name, peers));
    }
  } else {
    if (options.endpoints.size() != stages.size()) {
      return invalid(stages.size(), " stages take as many endpoints, not ", options.endpoints.size());
    }
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = options.endpoints[i]->name();
  }
  options.worker.host_memory = !within;
  options.worker.schedule = options.schedule;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    StageThread& stage = *cluster->stages_.emplace_back(std::make_unique<StageThread>(std::move(stages[i])));
    stage.endpoint = std::move(options.endpoints[i]);
    stage.worker = std::make_unique<worker::ModelWorker>(stage.engine, std::move(optimizers[i]), options.worker);
    DriverOptions driver;
    driver.stage = stage::stage_options(worker::stage_of(stage.engine));
    driver.stage.schedule = options.schedule;
    driver.stage.window = options.window;
    driver.nodes = names;
    driver.log = Logger(names[i], Level::kOff);
    if (i == 0) driver.on_report = options.on_report;
    stage.driver = std::make_unique<Driver>(std::move(driver), *stage.endpoint, *stage.worker);
  }
  for (auto& stage : cluster->stages_) {
    stage->thread = std::thread([&own = *stage] {
      at::init_num_threads();  // as many as this process was told, for kernels that ask OpenMP itself
      own.outcome = own.driver->run().status();
      (void)own.endpoint->close(std::chrono::steady_clock::now() + kGoodbyeTime);
    });
  }
  return cluster;
}

void LocalCluster::end() {
  if (!stages_.empty() && stages_.front()->thread.joinable()) {
    stages_.front()->driver->stop("was closed before its passes were done");
  }
  for (const auto& stage : stages_) {
    if (stage->thread.joinable()) stage->thread.join();
  }
}

Status LocalCluster::offer(const stage::Offer& batch, const std::vector<at::Tensor>& inputs, TimePoint deadline) {
  if (closed_) return cancelled("the cluster is closed");
  for (const Microbatch& microbatch : cut_batch(batch, inputs, microbatches_)) {
    std::vector<wire::EdgeTensor> edges = worker::model_inputs(microbatch.inputs, /*host=*/false);
    if (Status offered = stages_.front()->driver->offer(microbatch.offer, std::move(edges), deadline); !offered.ok())
      return offered;
  }
  return {};
}

Status LocalCluster::drain(TimePoint deadline) {
  if (Status drained = stages_.front()->driver->drain(deadline); !drained.ok()) return drained;
  const std::uint64_t updates = stages_.front()->driver->statistics().counts.updates;
  for (const auto& stage : stages_) {
    if (Status caught_up = stage->driver->catch_up(updates, deadline); !caught_up.ok()) return caught_up;
  }
  return {};
}

Status LocalCluster::close() {
  closed_ = true;
  stages_.front()->driver->finish();
  Status first;
  for (const auto& stage : stages_) {
    if (stage->thread.joinable()) stage->thread.join();
    if (first.ok()) first = stage->outcome;
  }
  return first;
}

}  // namespace ravnest::cluster
