// The command `ravnest`. Each subcommand is a file of this folder with one function, `void add_NAME(CLI::App& app)`,
// that adds its options and its callback; `main` calls them in the order in which --help lists them.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "benchmark.h"

namespace {

constexpr const char* kDescription =
    "Trains PyTorch models across several machines by asynchronous pipelines.\n"
    "\n"
    "Examples:\n"
    "  ravnest --version            the version of this command\n"
    "  ravnest --help               this text\n"
    "  ravnest benchmark --help     measure this machine for the pool file\n"
    "\n"
    "The Python package of the same name captures models and runs them: python -c 'import ravnest; help(ravnest)'";

int run(int argc, char** argv) {
  CLI::App app(kDescription, "ravnest");
  app.set_version_flag("--version", RAVNEST_VERSION, "Print the version and exit");
  if constexpr (RAVNEST_WITH_TORCH) ravnest::add_benchmark(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {
    return app.exit(outcome);
  }
  if (argc == 1) std::cout << app.help();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "ravnest: " << error.what() << '\n';
    return 1;
  }
}
