#include "ravnest/checkpoint/fuse.h"

#include <iostream>
#include <memory>

#include "commands.h"
#include "ranges.h"

namespace ravnest::cli {
namespace {

void run_fuse(const checkpoint::FuseOptions& options) {
  const checkpoint::Fused fused = require(checkpoint::fuse(options));
  std::cout << "wrote " << fused.state_dict.string() << " (" << fused.tensors << " tensors, " << fused.bytes
            << " bytes)";
  if (!fused.safetensors.empty()) std::cout << " and " << fused.safetensors.string();
  std::cout << "; load it with model.load_state_dict(torch.load('" << fused.state_dict.string()
            << "', weights_only=True))\n";
}

}  // namespace

void add_fuse(CLI::App& app) {
  CLI::App* command = app.add_subcommand("fuse", "Merge the saved stages of a cluster into one state dict");
  const auto options = std::make_shared<checkpoint::FuseOptions>();
  command->add_option("--cluster", options->cluster, "The cluster whose stages are merged")
      ->capture_default_str()
      ->check(whole(0));
  command->add_option("--trained", options->trained, "The folder with the saved stages")->capture_default_str();
  command->add_flag("--safetensors", options->safetensors, "Write trained_state_dict.safetensors too");
  command->footer(
      "Each node leaves its stage in trained/cluster_N/node_I.safetensors of its working directory. Copy those of one\n"
      "cluster into one place and run this there. Nothing is written unless all stages are there and were saved\n"
      "together.\n"
      "\n"
      "Examples:\n"
      "  ravnest fuse                              writes trained/trained_state_dict.pt\n"
      "  ravnest fuse --cluster 1 --safetensors    of cluster 1, and as safetensors too\n"
      "  ravnest fuse --trained /data/run_7/trained");
  command->callback([options] { run_fuse(*options); });
}

}  // namespace ravnest::cli
