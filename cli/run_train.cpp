#include "run_train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>
#include <thread>
#include <utility>

#include "complete_checkpoint.h"
#include "own_environment.h"
#include "ravnest/base/text.h"
#include "ravnest/train/loop/prepare.h"
#include "ravnest/train/rank/rank_trainer.h"
#include "terminal_progress.h"

namespace ravnest::cli {
namespace {

Result<train::TrainConfig> config_of(const TrainRequest& request) {
  auto config = train::read_settings(request.config);
  if (!config.ok()) return config;
  if (!config->strategy) config->strategy.emplace();
  if (request.strategy) config->strategy->name = *request.strategy;
  if (request.units) config->strategy->units = *request.units;
  if (request.backend) config->strategy->backend = *request.backend;
  if (request.trusted_network) config->strategy->trusted_network = true;
  if (request.compression) {
    const auto codec = codec::parse_codec(*request.compression);
    if (!codec.ok()) return codec.status().with_context("--compression");
    config->compression = *codec;
  }
  if (request.precision) config->strategy->precision = *request.precision;
  if (request.float32) config->strategy->float32 = *request.float32;
  if (request.epochs) config->epochs = *request.epochs;
  if (request.batch_size) config->batch_size = *request.batch_size;
  if (!config->of_pipelines.empty()) {
    return invalid(request.config.string(), ": ", join(config->of_pipelines),
                   config->of_pipelines.size() == 1 ? " means" : " mean",
                   " something for pipelines only (`ravnest node`), where each node has a part of the model: leave ",
                   config->of_pipelines.size() == 1 ? "it" : "them", " out for `ravnest train`");
  }
  if (Status complete = complete_checkpoint(request.resume, own_environment(), *config); !complete.ok())
    return complete;
  if (config->data.shard == false && request.place.world > 1)
    return invalid(request.config.string(), ": shard = false, but ranks always share the data out: leave it out");
  if (config->strategy->name == "single" && request.place.world > 1) {
    return invalid("the strategy is \"single\", for one process, and there are ", request.place.world,
                   " ranks: --strategy ddp, or name = \"ddp\" in [strategy], trains with all of them");
  }
  return config;
}

// Ranks that share a machine would fight for its cores: each takes its part, unless it was told otherwise.
void share_cores(const TrainRequest& request, int threads) {
  const int ranks = request.place.local_world;
  if (threads == 0 && !request.threads_are_set && ranks > 1)
    threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
  if (threads > 0) at::set_num_threads(threads);
}

}  // namespace

Status check_train(const TrainRequest& request) { return config_of(request).status(); }

Status run_train(const TrainRequest& request, Told& told) {
  const std::string name = strategy::rank_name(request.place.rank.value_or(0));
  const bool is_alone = request.place.world == 1;
  const Logger log(is_alone ? "ravnest" : name, Level::kInfo);
  train::RankOptions options;
  options.rendezvous = {
      .place = request.place, .token = request.token, .software = request.software, .ports = request.ports, .log = log};
  const auto config = config_of(request);
  if (!config.ok() && !is_alone)
    return train::Rank::withdraw(options, text("failed: ", config.status().message()), told.poll);
  if (!config.ok()) return config.status();
  options.rendezvous.settings = {{"strategy", config->strategy->name}};
  share_cores(request, config->threads);
  options.model = request.model;
  options.trained = request.trained;
  options.device = c10::Device(config->device);
  options.gpus_are_chosen = request.gpus_are_chosen;
  options.log = log;
  options.strategy.broadcast_buffers = config->strategy->broadcast_buffers;
  options.strategy.backend = *train::parse_backend(config->strategy->backend);
  options.strategy.trusted_network = config->strategy->trusted_network;
  options.strategy.precision = *strategy::parse_precision(config->strategy->precision);
  options.strategy.float32 = *train::parse_float32(config->strategy->float32);
  if (config->strategy->units == "blocks") options.strategy.units.rule = graph::UnitRule::kBlocks;
  report::Progress progress(std::cerr, terminal_progress());
  auto rank = train::Rank::open(std::move(options), told.poll);
  if (!rank.ok()) return rank.status();
  auto trainer = train::RankTrainer::prepare(**rank, *config, {.progress = &progress});
  if (!trainer.ok()) return trainer.status();
  if (config->checkpoint) told.want_end = [&rank](const std::string& why) { return (*rank)->want_end(why); };
  const auto outcome = trainer->train(told.poll);
  if (!outcome.ok()) return outcome.status();
  if ((*rank)->rank() == 0) std::cerr << outcome->summary << std::flush;
  (*rank)->close();
  told.ended_early = outcome->ended_early;
  return {};
}

}  // namespace ravnest::cli
