// `ravnest launch`: a command once for every rank of a data-parallel run that belongs on this machine.
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "launch_ranks.h"
#include "own_environment.h"
#include "place_options.h"
#include "ravnest/strategy/place/visible_devices.h"

namespace ravnest::cli {
namespace {

struct LaunchOptions {
  PlaceOptions place;
  std::vector<std::string> command;
};

void run_launch(const LaunchOptions& options) {
  if (options.command.empty())
    require(
        invalid("what is every rank to run? Give the command after --: ravnest launch --devices 4 -- python train.py"));
  const strategy::Environment environment = own_environment();
  const int devices = strategy::visible_devices(environment);
  // Asked without the flags first: those are about ranks to start, and would only be found not to fit this one.
  const auto own = strategy::find_place({}, environment, devices);
  if (own.ok() && own->rank)
    require(invalid("this process is rank ", *own->rank, " of ", own->world, " already, as ", own->launcher,
                    " says: run the command itself, without `ravnest launch`",
                    own->launcher == "RANK" ? "; where RANK counts machines, set NODE_RANK in its place" : ""));
  const strategy::Place place = require(strategy::find_place(options.place.flags, environment, devices));
  const int status = require(launch_ranks({place, options.command, options.place.token_file}, environment));
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_launch(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("launch", "Run a command for each rank of a data-parallel run on this machine");
  const auto options = std::make_shared<LaunchOptions>();
  add_place_options(*command, options->place);
  command->add_option("command", options->command, "What every rank runs");
  command->footer(
      "Starts one process for each rank of this machine, with torchrun's variables (RANK, LOCAL_RANK, WORLD_SIZE,\n"
      "LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and so on), so that a script for torchrun runs as it is, and shows\n"
      "their lines with the rank's name in front. With several machines start one on each, with the same token\n"
      "(`ravnest token`) in RAVNEST_TOKEN. Ctrl-C ends all ranks: those that are not gone after 5 seconds are killed.\n"
      "SIGTERM and SIGUSR1 are passed on: ranks that make checkpoints end with one, and the status 0.\n"
      "When one fails, the others end too, and the last line says why. The exit status is that of the first that\n"
      "failed, 130 after Ctrl-C.\n"
      "\n"
      "Examples:\n"
      "  ravnest launch -- python train.py              a rank for each GPU\n"
      "  ravnest launch --devices 4 -- python train.py --epochs 3\n"
      "  ravnest launch --nodes 2 --node-rank 1 --master 10.0.0.1:29501 -- python train.py");
  command->callback([options] { run_launch(*options); });
}

}  // namespace ravnest::cli
