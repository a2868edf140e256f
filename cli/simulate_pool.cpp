// `ravnest simulate`: what a pool would do as machines join, leave and change.
#include "ravnest/plan/simulate.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "cut_model.h"
#include "progress.h"
#include "ravnest/base/file.h"
#include "ravnest/plan/machine.h"
#include "ravnest/plan/simulation_svg.h"
#include "ravnest/plan/simulation_text.h"

namespace ravnest::cli {
namespace {

struct Options {
  std::filesystem::path archive;
  std::filesystem::path scenario;
  std::filesystem::path svg;
  std::filesystem::path json;
};

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void run_simulate(const Options& options) {
  const plan::Scenario scenario = require(plan::read_scenario(options.scenario));
  const plan::ModelCosts costs = require(read_costs(options.archive, scenario.form.training));
  const Interruptible search("simulating");
  const Result<std::vector<plan::SimulatedStep>> simulated =
      plan::simulate(costs, scenario, [&](double share) { return search.report(share); });
  search.finish();
  const std::vector<plan::SimulatedStep> steps = require(simulated);
  std::cout << "Samples per second of the plan of the start, kept, and of a plan made anew:\n\n"
            << plan::simulation_table(steps) << '\n';
  if (const std::string advice = plan::advice(steps); !advice.empty()) std::cout << advice << '\n';
  for (const std::string& note : scenario.pool.notes) std::cout << "Note: " << note << '\n';
  if (!plan::compute_known(scenario.pool))
    std::cout << "Note: not every node's compute is known; what is missing was assumed\n";
  if (options.svg.empty()) {
    std::cout << plan::bars(steps, terminal_columns());
  } else {
    require(write_file_atomically(options.svg, plan::simulation_svg(steps)));
    std::cout << "the plot is in " << options.svg.string() << '\n';
  }
  if (!options.json.empty()) {
    require(write_file_atomically(options.json, plan::encode_steps(steps)));
    std::cout << "the figures are in " << options.json.string() << '\n';
  }
}

}  // namespace

void add_simulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "Predict how a pool would train as machines come, go and change");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->archive, "The captured model, a .pt2 archive")->required();
  command->add_option("scenario", options->scenario, "The pool and what happens to it, a JSON file; see below")
      ->required();
  command->add_option("--svg", options->svg, "Plot both curves into this file, in place of bars in the terminal");
  command->add_option("--json", options->json, "Write all figures into this file");
  command->footer(
      "Nothing is measured and no machine is asked: the planner predicts, for the start and after each event, the\n"
      "samples per second of the plan of the start as it would run on, and of a plan made anew.\n"
      "\n"
      "A scenario:\n"
      "  {\"nodes\": [{\"count\": 100, \"ram\": 16, \"bandwidth\": 100, \"compute\": 200, \"latency\": 20, \"spread\": "
      "0.2},\n"
      "             {\"count\": 20, \"ram\": 4, \"bandwidth\": 20, \"compute\": 40}],\n"
      "   \"events\": [{\"join\": {\"count\": 10, \"ram\": 4, \"bandwidth\": 10}, \"name\": \"old laptops\"},\n"
      "              {\"leave\": [3, 17]},\n"
      "              {\"link\": {\"nodes\": [0], \"bandwidth\": 5, \"latency\": 80}},\n"
      "              {\"slow\": {\"nodes\": [1, 2], \"factor\": 0.25}},\n"
      "              {\"reduce_factor\": 50}],\n"
      "   \"balance\": \"time\", \"min_cluster_size\": 2, \"seed\": 42, \"optimizer_state\": 2, \"reduce_factor\": "
      "100}\n"
      "\n"
      "  ram in GB, bandwidth in Mbps, compute in GFLOP/s, latency in ms; spread draws ram, bandwidth and compute of\n"
      "  each node within +-20 % here. In place of \"nodes\": \"pool\": \"node_configs.json\", beside the scenario. "
      "Nodes\n"
      "  have the ids 0, 1, ... in order; those that join get the next ones. Only \"nodes\" or \"pool\" is required.\n"
      "\n"
      "Examples:\n"
      "  ravnest simulate model.pt2 scenario.json\n"
      "  ravnest simulate model.pt2 scenario.json --svg curves.svg --json figures.json");
  command->callback([options] { run_simulate(*options); });
}

}  // namespace ravnest::cli
