// `ravnest train`: a whole model, by one process or by all ranks of a data-parallel run.
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "launch_ranks.h"
#include "own_environment.h"
#include "place_options.h"
#include "ranges.h"
#include "ravnest/strategy/place/visible_devices.h"
#include "run_train.h"
#include "train_until_told.h"

namespace ravnest::cli {
namespace {

struct TrainOptions {
  PlaceOptions place;
  TrainRequest request;
  std::string ports;
};

// The words that this process was started with.
std::vector<std::string> own_command() {
  std::vector<std::string> command = {"/proc/self/exe"};
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::getline(file, word, '\0');
  while (std::getline(file, word, '\0')) command.push_back(word);
  return command;
}

std::optional<strategy::RunToken> token_of(const TrainOptions& options, const strategy::Environment& environment) {
  if (!options.place.token_file.empty()) return require(strategy::RunToken::read(options.place.token_file));
  const auto given = environment.find("RAVNEST_TOKEN");
  if (given == environment.end()) return std::nullopt;
  return require(strategy::RunToken::parse(given->second, "RAVNEST_TOKEN"));
}

void run(TrainOptions& options) {
  const strategy::Environment environment = own_environment();
  const int devices = strategy::visible_devices(environment);
  TrainRequest& request = options.request;
  request.place = require(strategy::find_place(options.place.flags, environment, devices));
  if (!options.ports.empty()) request.ports = require(strategy::parse_ports(options.ports));
  if (!request.place.rank && request.place.world > 1) {
    // Over several machines the ranks of this one have to be there to tell the others.
    if (request.place.nodes == 1) require(check_train(request));
    const int status = require(launch_ranks({request.place, own_command(), options.place.token_file}, environment));
    if (status != 0) throw CLI::RuntimeError(status);
    return;
  }
  if (!request.place.rank) request.place.rank = 0;
  request.token = token_of(options, environment);
  request.software = release();
  request.threads_are_set = environment.contains("OMP_NUM_THREADS");
  request.gpus_are_chosen = environment.contains("CUDA_VISIBLE_DEVICES");
  Background none;
  train_until_told(request.place.world == 1 ? "the training" : strategy::rank_name(*request.place.rank), none,
                   [&](Told& told) { return run_train(request, told); });
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a whole model, by one process or data-parallel by several");
  const auto options = std::make_shared<TrainOptions>();
  TrainRequest& request = options->request;
  command->add_option("model", request.model, "The captured model, as ravnest.capture writes it")->required();
  command->add_option("--config", request.config, "What to train on, how, and for how long")->capture_default_str();
  command->add_option("--trained", request.trained, "The folder to save the model in")->capture_default_str();
  command->add_option("--strategy", request.strategy, "single or ddp; else that of [strategy]")
      ->check(CLI::IsMember({"single", "ddp"}));
  command->add_option("--units", request.units, "size or blocks; else those of [strategy]")
      ->check(CLI::IsMember({"size", "blocks"}));
  command->add_option("--backend", request.backend, "auto, ring or nccl; else that of [strategy]")
      ->check(CLI::IsMember({"auto", "ring", "nccl"}));
  command->add_flag("--trusted-network", request.trusted_network,
                    "NCCL, which does not encrypt, may go over the network");
  command->add_option("--compression", request.compression,
                      "Of gradients: none, fp16, bf16, int8, int4 or topk:0.01; else that of the config");
  command->add_option("--precision", request.precision, "float32, bf16 or fp16; else that of [strategy]")
      ->check(CLI::IsMember({"float32", "bf16", "fp16"}));
  command->add_option("--float32", request.float32, "exact or tf32; else that of [strategy]")
      ->check(CLI::IsMember({"exact", "tf32"}));
  command->add_option("--epochs", request.epochs, "Else that of the config")->check(whole<std::int64_t>(1));
  command->add_option("--batch-size", request.batch_size, "Of each rank; else that of the config")
      ->check(whole<std::int64_t>(1));
  command->add_option("--resume", request.resume, kResumeHelp)->expected(0, 1)->default_str("newest");
  add_place_options(*command, options->place);
  command->add_option("--ports", options->ports, "A-B: ports that ranks other than rank 0 may listen on; else any");
  command->footer(
      "With --strategy ddp every rank has the whole model, takes its share of each batch, and all update alike: the\n"
      "same numbers as one process with all their batches. Started plainly, it starts the ranks of this machine "
      "itself;\n"
      "started by torchrun, srun, mpirun or `ravnest launch`, it is one of them. Rank 0 shows the progress and saves.\n"
      "With several machines all ranks need the same token (`ravnest token`) in RAVNEST_TOKEN.\n"
      "\n"
      "Examples:\n"
      "  ravnest train model.pt2                                one process, with train.toml\n"
      "  ravnest train model.pt2 --strategy ddp --devices 4     four ranks on this machine\n"
      "  ravnest train model.pt2 --resume                       goes on from the newest checkpoint\n"
      "  MASTER_ADDR=10.0.0.1 MASTER_PORT=29501 WORLD_SIZE=2 NODE_RANK=0 \\\n"
      "    ravnest train model.pt2 --strategy ddp --devices 4 --nodes 2\n"
      "  srun ravnest train model.pt2 --strategy ddp");
  command->callback([options] { run(*options); });
}

}  // namespace ravnest::cli
