// `ravnest doctor`: whether this machine can play its part in the plan.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "commands.h"
#include "ranges.h"
#include "ravnest/doctor/examine.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

constexpr Duration kLookupTime = std::chrono::seconds(10);

struct DoctorOptions {
  std::string node;
  std::filesystem::path node_data = "node_data";
  double wait_s = 0;
};

void run_doctor(const DoctorOptions& options) {
  const StopSignals signals;
  const auto here = plan::read_plan_here(options.node_data);
  if (!here.ok()) {
    std::cout << doctor::line({doctor::Severity::kProblem, "", here.status().message()}) << std::endl;
    throw CLI::RuntimeError(1);
  }
  const std::vector<int> nodes =
      require(plan::nodes_to_examine(*here, options.node, Wait::of(kLookupTime, signals.descriptor())));
  doctor::ExamineOptions examine;
  examine.software = release();
  examine.wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.wait_s));
  examine.stop = signals.descriptor();
  const auto findings = require(doctor::examine(
      *here, nodes, examine, [](const doctor::Finding& finding) { std::cout << doctor::line(finding) << std::endl; }));
  std::cout << doctor::summary(findings) << std::endl;
  if (doctor::has_problem(findings)) throw CLI::RuntimeError(1);
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Check that this machine's nodes can talk to their peers");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--node", options->node, "The node to examine; by default all that belong on this machine");
  command->add_option("--node-data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--wait", options->wait_s, "Seconds for which peers that are not there yet are tried again")
      ->capture_default_str()
      ->check(between(0.0, 86400.0));
  command->footer(
      "Checks the plan, the node's identity, its address and port, and the way to and from each peer. Where the node\n"
      "is not running, doctor answers at its port meanwhile, so that others can be examined against it: start it with\n"
      "--wait on one machine after the other. The exit status is 1 where there is a problem.\n"
      "\n"
      "Examples:\n"
      "  ravnest doctor\n"
      "  ravnest doctor --wait 60\n"
      "  ravnest doctor --node node_3 --node-data /mnt/lab/node_data");
  command->callback([options] { run_doctor(*options); });
}

}  // namespace ravnest::cli
