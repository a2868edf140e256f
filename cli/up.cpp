// `ravnest up`: all nodes of the plan that belong on this machine, with one view of them.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "local_processes.h"
#include "ravnest/base/clock.h"
#include "ravnest/plan/files/local_plan.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

constexpr Duration kLookupTime = std::chrono::seconds(10);
constexpr Duration kAfterNodeFailure = std::chrono::seconds(10);

struct UpOptions {
  std::filesystem::path config = "train.toml";
  std::filesystem::path node_data = "node_data";
  std::filesystem::path trained = "trained";
  std::optional<std::string> resume;
  std::vector<std::string> command;
};

std::vector<std::string> command_of(const UpOptions& options, const std::string& name) {
  if (!options.command.empty()) return options.command;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {own,
                                    "node",
                                    name,
                                    "--config",
                                    options.config.string(),
                                    "--node-data",
                                    options.node_data.string(),
                                    "--trained",
                                    options.trained.string()};
  if (options.resume) words.push_back("--resume=" + *options.resume);
  return words;
}

void run_up(const UpOptions& options) {
  StopSignals signals(SIGUSR1);
  const auto here = require(plan::read_plan_here(options.node_data));
  const std::vector<int> nodes = require(plan::nodes_to_examine(here, "", Wait::of(kLookupTime, signals.descriptor())));
  LocalRun run{.what = "nodes", .processes = {}, .after_failure = kAfterNodeFailure};
  for (const int node : nodes) {
    const std::string name = plan::node_name(node);
    std::vector<std::string> variables = {"RAVNEST_NODE=" + name};
    if (options.resume) variables.push_back("RAVNEST_RESUME=" + *options.resume);
    run.processes.push_back({name, command_of(options, name), std::move(variables)});
  }
  const int status = require(run_local_processes(run, signals));
  signals.block_until_exit();
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_up(CLI::App& app, bool has_node) {
  CLI::App* command = app.add_subcommand("up", "Run all nodes of the plan that belong on this machine");
  const auto options = std::make_shared<UpOptions>();
  command->add_option("--config", options->config, "Without a command: what `ravnest node` trains with")
      ->capture_default_str();
  command->add_option("--node-data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--trained", options->trained, "Without a command: where stages are saved")
      ->capture_default_str();
  command->add_option("--resume", options->resume, std::string(kResumeHelp) + "; a script's Trainer hears of it")
      ->expected(0, 1)
      ->default_str("newest");
  command->add_option("command", options->command,
                      "What to run for each node, RAVNEST_NODE being its name; by default `ravnest node`");
  command->footer(
      "Starts a process for each node whose identity and address are this machine's, and shows their lines with the\n"
      "node's name in front. Ctrl-C ends them all: those that are not gone after 5 seconds are killed. When one "
      "fails,\n"
      "the others end too, and the last line says why. The exit status is that of the first that failed, 130 after\n"
      "Ctrl-C.\n"
      "\n"
      "Examples:\n"
      "  ravnest up                                trains with train.toml, without Python\n"
      "  ravnest up --config runs/long.toml\n"
      "  ravnest up --resume                       goes on from the newest checkpoint\n"
      "  ravnest up --resume=best -- python train.py\n"
      "  ravnest up -- python train.py --epochs 3  the same script for each node");
  command->callback([options, has_node] {
    if (!has_node && options->command.empty())
      require(unsupported("this build has no `ravnest node`, since it has no torch; give the command to run after --"));
    run_up(*options);
  });
}

}  // namespace ravnest::cli
