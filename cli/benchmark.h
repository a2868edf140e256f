#pragma once

namespace CLI {
class App;
}

namespace ravnest {

// The subcommand `benchmark`. Needs torch. Its callback throws std::runtime_error with the sentence to print.
void add_benchmark(CLI::App& app);

}  // namespace ravnest
