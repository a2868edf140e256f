#include "run_node.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "complete_checkpoint.h"
#include "own_environment.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/train/loop/prepare.h"
#include "ravnest/train/loop/trainer.h"
#include "terminal_progress.h"

namespace ravnest::cli {
namespace {

// Nodes of the plan with the same host as that one, itself included.
Result<int> nodes_beside(const NodeRequest& request) {
  const auto here = plan::read_plan_here(request.node_data);
  if (!here.ok()) return here.status();
  const auto own = plan::node_named(here->plan, request.name);
  if (!own.ok()) return own.status();
  const auto& nodes = here->plan.pool.nodes;
  const std::string& host = nodes[static_cast<std::size_t>(*own)].address.host;
  return static_cast<int>(std::ranges::count_if(nodes, [&](const auto& node) { return node.address.host == host; }));
}

// Nodes that share a machine would fight for its cores: each takes its part, unless it was told otherwise.
Status share_cores(const NodeRequest& request, int threads) {
  if (threads == 0 && !request.threads_are_set) {
    const auto beside = nodes_beside(request);
    if (!beside.ok()) return beside.status();
    if (*beside > 1) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / *beside);
  }
  if (threads > 0) at::set_num_threads(threads);
  return {};
}

}  // namespace

Status run_node(const NodeRequest& request, Told& told) {
  train::NodeOptions options;
  options.name = request.name;
  options.node_data = request.node_data;
  options.trained = request.trained;
  options.software = request.software;
  options.background = request.background;
  const Logger log(request.name, Level::kInfo);
  options.log = log;
  auto config = train::read_settings(request.config);
  if (config.ok()) {
    if (Status complete = complete_checkpoint(request.resume, own_environment(), *config); !complete.ok())
      config = complete;
  }
  if (!config.ok()) {
    // The others would wait for this node in vain. Who can't be told will see that it is not there.
    (void)train::Node::withdraw(options, {text("failed: ", config.status().message())});
    return config.status();
  }
  if (Status shared = share_cores(request, config->threads); !shared.ok()) return shared;
  options.device = c10::Device(config->device);
  report::Progress progress(std::cerr, terminal_progress());
  auto node = train::Node::open(std::move(options));
  if (!node.ok()) return node.status();
  if (const auto clusters = (*node)->plan().clusters.size();
      (*node)->is_root() && clusters > 1 && !config->data.shard) {
    log.warning("all ", clusters,
                " clusters train on the same data, unless each of them has files of its own: "
                "shard = true in [data] gives each its part; shard = false says that you mean it so");
  }
  auto trainer = train::Trainer::prepare(**node, *config, {.progress = &progress});
  if (!trainer.ok()) return trainer.status();
  if (config->checkpoint) told.want_end = [&node](const std::string& why) { return (*node)->want_end(why); };
  const auto outcome = trainer->train(told.poll);
  if (!outcome.ok()) return outcome.status();
  std::cerr << outcome->summary << std::flush;
  (*node)->close();
  told.ended_early = outcome->ended_early;
  return {};
}

}  // namespace ravnest::cli
