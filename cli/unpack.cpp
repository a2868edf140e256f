#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "ravnest/plan/files/pack.h"

namespace ravnest::cli {
namespace {

namespace fs = std::filesystem;

struct UnpackOptions {
  fs::path archive;
  fs::path node_data = "node_data";
};

void run_unpack(const UnpackOptions& options) {
  const auto unpacked = plan::unpack(options.archive, options.node_data);
  require(unpacked.status());
  std::cout << "unpacked " << unpacked->node << " (" << unpacked->files << " files, " << unpacked->bytes
            << " bytes) into " << unpacked->folder.string()
            << ": now start your training script here with RAVNEST_NODE=" << unpacked->node << '\n';
}

}  // namespace

void add_unpack(CLI::App& app) {
  CLI::App* command = app.add_subcommand("unpack", "Check a node's archive and lay it out on this machine");
  const auto options = std::make_shared<UnpackOptions>();
  command->add_option("archive", options->archive, "The archive that `ravnest pack` made")->required();
  command->add_option("--node-data", options->node_data, "The folder to lay it out in")->capture_default_str();
  command->footer(
      "Nothing is written unless the whole archive is in order. Further nodes of the same plan join those that are\n"
      "there; another plan's are replaced.\n"
      "\n"
      "Examples:\n"
      "  ravnest unpack node_3.ravnest\n"
      "  ravnest unpack node_3.ravnest --node-data /data/ravnest/node_data");
  command->callback([options] { run_unpack(*options); });
}

}  // namespace ravnest::cli
