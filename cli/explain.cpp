// `ravnest explain`: a plan in words and numbers.
#include "ravnest/plan/show/explain.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "ravnest/base/file.h"
#include "ravnest/plan/files/write.h"
#include "ravnest/plan/show/svg.h"

namespace ravnest::cli {
namespace {

struct ExplainOptions {
  std::filesystem::path node_data = "node_data";
  std::filesystem::path svg;
};

void run_explain(const ExplainOptions& options) {
  const plan::Plan made = require(plan::read_plan(options.node_data));
  std::cout << plan::explain(made);
  if (options.svg.empty()) return;
  require(write_file_atomically(options.svg, plan::to_svg(made)));
  std::cout << "\nthe drawing is in " << options.svg.string() << '\n';
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "Show a plan: who does what, how fast, and what limits it");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("node_data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--svg", options->svg, "Draw the clusters, stages and rings into this file");
  command->footer(
      "Examples:\n"
      "  ravnest explain\n"
      "  ravnest explain /mnt/lab/node_data --svg plan.svg");
  command->callback([options] { run_explain(*options); });
}

}  // namespace ravnest::cli
