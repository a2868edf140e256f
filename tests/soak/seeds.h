// What the programs that run simulations have in common: seed after seed, until a promise is broken.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>

namespace ravnest {

using Tell = std::function<void(const std::string&)>;

// PROGRAM [--seeds N] [--first S] [--tell]. `simulate(seed, tell)` gives the run's violation, empty where every promise
// was kept; `so_far()` says what the runs had in them. Returns the program's status.
inline int run_seeds(std::string_view program, int count, char** arguments,
                     const std::function<std::string(std::uint64_t seed, const Tell& tell)>& simulate,
                     const std::function<std::string()>& so_far) {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 0;
  Tell tell;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--tell") {
      tell = [](const std::string& line) { std::cout << line << "\n"; };
    } else if (i + 1 < count && argument == "--seeds") {
      seeds = std::stoull(arguments[++i]);
    } else if (i + 1 < count && argument == "--first") {
      first = std::stoull(arguments[++i]);
    } else {
      std::cerr << "usage: " << program << " [--seeds N] [--first S] [--tell]\n";
      return 2;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t done = 1; done <= seeds; ++done) {
    if (const std::string violation = simulate(first + done - 1, tell); !violation.empty()) {
      std::cout << program << ": seed " << first + done - 1 << ": " << violation << "\n";
      return 1;
    }
    if (done % 10'000 != 0 && done != seeds) continue;
    const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::cout << program << ": " << done << " seeds in " << static_cast<int>(took_s) << " s ("
              << static_cast<int>(static_cast<double>(done) / took_s) << "/s): " << so_far() << "; every promise kept"
              << std::endl;
  }
  return 0;
}

}  // namespace ravnest
