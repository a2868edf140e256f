#include <iostream>

#include "commands.h"
#include "ravnest/strategy/launch/run_token.h"

namespace ravnest::cli {

void add_token(CLI::App& app) {
  CLI::App* command = app.add_subcommand("token", "Print a new token for a data-parallel run");
  command->footer(
      "All ranks of a run on several machines share one token: whoever has it can be one of them, so keep it to\n"
      "yourself. Give it to every rank by RAVNEST_TOKEN or by --token-file.\n"
      "\n"
      "Examples:\n"
      "  ravnest token\n"
      "  (umask 077; ravnest token > run.token)\n"
      "  export RAVNEST_TOKEN=$(ravnest token)");
  command->callback([] { std::cout << require(strategy::RunToken::create()).text() << '\n'; });
}

}  // namespace ravnest::cli
