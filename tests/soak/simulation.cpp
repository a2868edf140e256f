// transport_simulation [--seeds N] [--first S] [--tell]: runs the transport's simulation for N seeds from S on. Ends
// with 1 and the seed where a promise was broken; --tell prints every event.
#include "ravnest/transport/simulation.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

int main(int count, char** arguments) {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 0;
  std::function<void(const std::string&)> tell;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--tell") {
      tell = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    } else if (i + 1 < count && argument == "--seeds") {
      seeds = std::stoull(arguments[++i]);
    } else if (i + 1 < count && argument == "--first") {
      first = std::stoull(arguments[++i]);
    } else {
      std::fprintf(stderr, "usage: transport_simulation [--seeds N] [--first S] [--tell]\n");
      return 2;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  ravnest::transport::SimulationOutcome total;
  for (std::uint64_t done = 1; done <= seeds; ++done) {
    const auto outcome = ravnest::transport::simulate(first + done - 1, tell);
    if (!outcome.violation.empty()) {
      std::printf("transport_simulation: seed %llu: %s\n", static_cast<unsigned long long>(first + done - 1),
                  outcome.violation.c_str());
      return 1;
    }
    total.arrived += outcome.arrived;
    total.failed += outcome.failed;
    total.cuts += outcome.cuts;
    total.partitions += outcome.partitions;
    total.restarts += outcome.restarts;
    total.losses += outcome.losses;
    if (done % 10'000 != 0 && done != seeds) continue;
    const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf(
        "transport_simulation: %llu seeds in %.0f s (%.0f/s): %llu messages arrived, %llu failed, %llu cuts, "
        "%llu partitions, %llu restarts, %llu losses; every promise kept\n",
        static_cast<unsigned long long>(done), took_s, static_cast<double>(done) / took_s,
        static_cast<unsigned long long>(total.arrived), static_cast<unsigned long long>(total.failed),
        static_cast<unsigned long long>(total.cuts), static_cast<unsigned long long>(total.partitions),
        static_cast<unsigned long long>(total.restarts), static_cast<unsigned long long>(total.losses));
    std::fflush(stdout);
  }
  return 0;
}
