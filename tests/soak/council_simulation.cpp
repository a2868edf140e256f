// council_simulation [--seeds N] [--first S] [--tell]: runs the simulation of the clusters' agreement on rounds for N
// seeds from S on. Ends with 1 and the seed where a promise was broken; --tell prints every event.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "ravnest/collective/simulation.h"

int main(int count, char** arguments) {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 0;
  ravnest::collective::Tell tell;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--tell") {
      tell = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    } else if (i + 1 < count && argument == "--seeds") {
      seeds = std::stoull(arguments[++i]);
    } else if (i + 1 < count && argument == "--first") {
      first = std::stoull(arguments[++i]);
    } else {
      std::fprintf(stderr, "usage: council_simulation [--seeds N] [--first S] [--tell]\n");
      return 2;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  ravnest::collective::SimulationOutcome total;
  for (std::uint64_t done = 1; done <= seeds; ++done) {
    const auto outcome = ravnest::collective::simulate(first + done - 1, tell);
    if (!outcome.violation.empty()) {
      std::printf("council_simulation: seed %llu: %s\n", static_cast<unsigned long long>(first + done - 1),
                  outcome.violation.c_str());
      return 1;
    }
    total.messages += outcome.messages;
    total.attempts += outcome.attempts;
    total.commits += outcome.commits;
    total.crashes += outcome.crashes;
    total.returns += outcome.returns;
    total.newcomers += outcome.newcomers;
    total.outs += outcome.outs;
    total.partings += outcome.partings;
    if (done % 10'000 != 0 && done != seeds) continue;
    const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf(
        "council_simulation: %llu seeds in %.0f s (%.0f/s): %llu messages, %llu attempts, %llu commits, %llu crashes, "
        "%llu returns, %llu newcomers taken in, %llu outs, %llu partings; every promise kept\n",
        static_cast<unsigned long long>(done), took_s, static_cast<double>(done) / took_s,
        static_cast<unsigned long long>(total.messages), static_cast<unsigned long long>(total.attempts),
        static_cast<unsigned long long>(total.commits), static_cast<unsigned long long>(total.crashes),
        static_cast<unsigned long long>(total.returns), static_cast<unsigned long long>(total.newcomers),
        static_cast<unsigned long long>(total.outs), static_cast<unsigned long long>(total.partings));
    std::fflush(stdout);
  }
  return 0;
}
