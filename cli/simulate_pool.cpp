// `ravnest simulate MODEL SCENARIO`: what a pool would do as machines join, leave and change.
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "commands.h"
#include "cut_model.h"
#include "progress.h"
#include "ravnest/base/file.h"
#include "ravnest/plan/pool/machine.h"
#include "ravnest/plan/simulate/simulate.h"
#include "ravnest/plan/simulate/simulation_svg.h"
#include "ravnest/plan/simulate/simulation_text.h"
#include "simulate.h"

namespace ravnest::cli {
namespace {

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void simulate_pool(const PoolOptions& options) {
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
    std::cout << "Note: the compute of some nodes is not known; the plan assumes it\n";
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

}  // namespace ravnest::cli
