// The command `ravnest`. Each subcommand is a file of this folder with one function, `void add_NAME(CLI::App& app)`,
// that adds its options and its callback; `main` calls them in the order in which --help lists them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "commands.h"
#include "last_words.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/base/words/nearest.h"

namespace ravnest::cli {

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

const char* release() { return RAVNEST_VERSION; }

namespace {

constexpr const char* kDescription =
    "Trains PyTorch models across several machines by asynchronous pipelines.\n"
    "\n"
    "Examples:\n"
    "  ravnest benchmark              measures this machine for the pool file\n"
    "  ravnest plan model.pt2         plans who trains which part of the model\n"
    "  ravnest explain                shows the plan and what it promises\n"
    "  ravnest simulate m.pt2 s.json  predicts what joins, losses and slow links would do\n"
    "  ravnest pack node_3            makes one archive of what node_3 needs of the plan\n"
    "  ravnest unpack node_3.ravnest  checks it and lays it out on node_3's own machine\n"
    "  ravnest doctor                 on each machine: can it play its part, does it reach the others?\n"
    "  ravnest ping node_3            measures the path to node_3\n"
    "  ravnest node node_3            trains as node_3, with what train.toml says\n"
    "  ravnest up                     the same for all nodes of this machine at once\n"
    "  ravnest train model.pt2        trains a whole model, alone or data-parallel (--strategy ddp)\n"
    "  ravnest launch -- python t.py  runs a script for torchrun, once for each GPU\n"
    "  ravnest fuse                   merges the stages that were trained into one state dict\n"
    "  ravnest checkpoint list        lists a run's checkpoints; show, verify, remove and export them too\n"
    "  ravnest eval model.pt2         says how good the trained model is\n"
    "  ravnest token                  makes the secret that the ranks of a data-parallel run share\n"
    "  ravnest cp run.pt s3://lab/    copies files to and from object storage\n"
    "  ravnest ls s3://lab/           says what is there\n"
    "\n"
    "To put a model into a file, in Python: ravnest.capture(model, (example,), path='model.pt2')";

// CLI11 only says that a word was not expected.
Status check_command(const CLI::App& app, std::string_view written) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::find(names, written) != names.end()) return {};
  const std::optional<std::string_view> meant = nearest(written, names);
  return invalid("there is no command ", printable(written.substr(0, 60)),
                 meant ? text("; did you mean ", *meant, "?") : ".", " The commands are ", join(names),
                 "; `ravnest --help` says what they do");
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "ravnest");
  app.set_version_flag("--version", release(), "Print the version and exit");
  if constexpr (RAVNEST_WITH_TORCH) {
    add_benchmark(app);
    add_plan(app);
  }
  add_explain(app);
  if constexpr (RAVNEST_WITH_TORCH) {
    add_simulate(app, simulate_pool);
  } else {
    add_simulate(app, nullptr);
  }
  add_pack(app);
  add_unpack(app);
  add_ping(app);
  add_doctor(app);
  if constexpr (RAVNEST_WITH_TORCH) add_node(app);
  add_up(app, RAVNEST_WITH_TORCH);
  if constexpr (RAVNEST_WITH_TORCH) add_train(app);
  add_launch(app);
  add_fuse(app);
  add_checkpoint(app);
  if constexpr (RAVNEST_WITH_TORCH) add_eval(app);
  add_token(app);
  add_cp(app);
  add_ls(app);
  if (argc > 1 && !std::string_view(argv[1]).starts_with('-')) require(check_command(app, argv[1]));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {
    return app.exit(outcome);
  }
  if (argc == 1) std::cout << app.help();
  return 0;
}

}  // namespace
}  // namespace ravnest::cli

int main(int argc, char** argv) {
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));  // a file that may not grow is a failed write, with its sentence
  try {
    return ravnest::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << ravnest::cli::kOwn << ravnest::cli::in_lines(error.what()) << '\n';
    return 1;
  }
}
