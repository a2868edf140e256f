// `ravnest node`: one node of a plan, trained without Python.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "commands.h"
#include "run_node.h"
#include "train_until_told.h"

namespace ravnest::cli {
namespace {

void run(NodeRequest request) {
  request.software = release();
  request.threads_are_set = std::getenv("OMP_NUM_THREADS") != nullptr;
  request.background = std::make_shared<Background>();
  train_until_told(request.name, *request.background, [&](Told& told) { return run_node(request, told); });
}

}  // namespace

void add_node(CLI::App& app) {
  CLI::App* command = app.add_subcommand("node", "Train as one node of the plan, without Python");
  const auto request = std::make_shared<NodeRequest>();
  command->add_option("name", request->name, "The node, such as node_1 or 1")->envname("RAVNEST_NODE")->required();
  command->add_option("--config", request->config, "What to train on, how, and for how long")->capture_default_str();
  command->add_option("--node-data", request->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--trained", request->trained, "The folder to save this node's stage in")->capture_default_str();
  command->add_option("--resume", request->resume, kResumeHelp)->expected(0, 1)->default_str("newest");
  command->footer(
      "Start one on each machine, in any order, all with the same train.toml; they wait for each other and end\n"
      "together. The data files are read on the first and on the last node of a cluster. Losses, accuracies and the\n"
      "progress are the first node's. Ctrl-C ends the run on all nodes; the exit status is then 130, and 1 where the\n"
      "run failed.\n"
      "\n"
      "train.toml, at its shortest (docs/command.md has every key):\n"
      "  loss = \"cross_entropy\"\n"
      "  optimizer = {name = \"Adam\", lr = 1e-3}\n"
      "  data = {format = \"npy\", inputs = \"x.npy\", targets = \"y.npy\"}\n"
      "\n"
      "Examples:\n"
      "  ravnest node node_1\n"
      "  ravnest node node_1 --config runs/long.toml --trained /data/trained\n"
      "  ravnest node node_1 --resume              goes on from the newest checkpoint\n"
      "  RAVNEST_NODE=node_1 ravnest node");
  command->callback([request] { run(*request); });
}

}  // namespace ravnest::cli
