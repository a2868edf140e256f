// The command `ravnest`. Each subcommand is a file of this folder with one function, `void add_NAME(CLI::App& app)`,
// that adds its options and its callback; `main` calls them in the order in which --help lists them.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>

#include "commands.h"

namespace {

constexpr const char* kDescription =
    "Trains PyTorch models across several machines by asynchronous pipelines.\n"
    "\n"
    "Examples:\n"
    "  ravnest --version        the version of this command\n"
    "  ravnest --help           this text\n"
    "  ravnest pack node_3      makes one archive of what node_3 needs of the plan in node_data\n"
    "  ravnest unpack node_3.ravnest    checks it and lays it out on node_3's own machine\n"
    "\n"
    "The Python package of the same name captures models and runs them: python -c 'import ravnest; help(ravnest)'";

int run(int argc, char** argv) {
  CLI::App app(kDescription, "ravnest");
  app.set_version_flag("--version", RAVNEST_VERSION, "Print the version and exit");
  add_pack(app);
  add_unpack(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {
    return app.exit(outcome);
  }
  if (argc == 1) std::cout << app.help();
  return 0;
}

}  // namespace

void require(const ravnest::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "ravnest: " << error.what() << '\n';
    return 1;
  }
}
