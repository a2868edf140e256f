#include "place_options.h"

#include <string>

#include "commands.h"
#include "ranges.h"

namespace ravnest::cli {

void add_place_options(CLI::App& command, PlaceOptions& options) {
  strategy::PlaceFlags& flags = options.flags;
  command.add_option("--devices", flags.devices, "Ranks on each machine; by default one for each GPU, or 1")
      ->check(whole(1));
  command.add_option("--nodes", flags.nodes, "Machines; by default 1")->check(whole(1));
  command.add_option("--node-rank", flags.node_rank, "Which of the machines this one is, from 0; else NODE_RANK")
      ->check(whole(0));
  command
      .add_option_function<std::string>(
          "--master", [&flags](const std::string& written) { flags.master = require(parse_address(written)); },
          "HOST:PORT where the first machine is reached; else MASTER_ADDR and MASTER_PORT")
      ->type_name("ADDRESS");
  command.add_option("--token-file", options.token_file,
                     "The file with the token that all ranks share; else RAVNEST_TOKEN");
}

}  // namespace ravnest::cli
