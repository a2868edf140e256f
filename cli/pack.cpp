#include "ravnest/plan/files/pack.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "ravnest/plan/files/folder.h"
#include "ravnest/plan/files/local_plan.h"

namespace ravnest::cli {
namespace {

namespace fs = std::filesystem;

struct PackOptions {
  std::string node;
  fs::path node_data = "node_data";
  fs::path archive;
  bool force = false;
};

void run_pack(PackOptions options) {
  const plan::PlanHere here = require(plan::read_plan_here(options.node_data));
  options.node = plan::node_name(require(plan::node_named(here.plan, options.node)));
  if (options.archive.empty()) options.archive = options.node + ".ravnest";
  if (!options.force && plan::is_there(options.archive))
    require(invalid(options.archive.string(), " exists already; --force replaces it"));
  require(plan::pack(options.node_data, options.node, options.archive));
  std::error_code ignored;
  std::cout << "wrote " << options.archive.string() << " (" << fs::file_size(options.archive, ignored)
            << " bytes) with the private key of " << options.node
            << ": copy it to that node's machine over a secure channel "
            << "and run there: ravnest unpack " << options.archive.filename().string() << '\n';
}

}  // namespace

void add_pack(CLI::App& app) {
  CLI::App* command = app.add_subcommand("pack", "Make one archive of what one node needs of a plan");
  const auto options = std::make_shared<PackOptions>();
  command->add_option("node", options->node, "The node, such as node_3 or 3")->required();
  command->add_option("--node-data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("-o,--output", options->archive, "The archive to write (default: NODE.ravnest)");
  command->add_flag("--force", options->force, "Replace an archive that exists");
  command->footer(
      "The archive holds the node's private key, so it is for that node's provider only. It does not hold the plan's\n"
      "authority or anything of other nodes.\n"
      "\n"
      "Examples:\n"
      "  ravnest pack node_3                       writes node_3.ravnest\n"
      "  ravnest pack node_3 -o /media/stick/node_3.ravnest --force");
  command->callback([options] { run_pack(*options); });
}

}  // namespace ravnest::cli
