// `ravnest simulate --protocol`: whether the state machines of a run keep their promises, in runs drawn from seeds.
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <utility>

#include "commands.h"
#include "progress.h"
#include "ravnest/stage/simulation/simulation.h"
#include "simulate.h"

namespace ravnest::cli {
namespace {

using stage::Sabotage;
using stage::SimulationOutcome;

constexpr std::uint64_t kSeedsPerReport = 200;

Sabotage sabotage_of(const std::string& name) {
  constexpr std::array kNames = {std::pair{std::string_view("answers-twice"), Sabotage::kAnswersTwice},
                                 std::pair{std::string_view("forgets-a-forward"), Sabotage::kForgetsAForward},
                                 std::pair{std::string_view("closes-alone"), Sabotage::kClosesAlone},
                                 std::pair{std::string_view("ignores-updates"), Sabotage::kIgnoresUpdates},
                                 std::pair{std::string_view("widens-the-window"), Sabotage::kWidensTheWindow},
                                 std::pair{std::string_view("hides-its-failure"), Sabotage::kHidesItsFailure},
                                 std::pair{std::string_view("does-not-wait"), Sabotage::kDoesNotWait},
                                 std::pair{std::string_view("gives-too-soon"), Sabotage::kGivesTooSoon},
                                 std::pair{std::string_view("skips-a-result"), Sabotage::kSkipsAResult},
                                 std::pair{std::string_view("holds-by-itself"), Sabotage::kHoldsByItself}};
  for (const auto& [known, sabotage] : kNames) {
    if (name == known) return sabotage;
  }
  return Sabotage::kNone;
}

void print_line(const std::string& line) { std::printf("  %s\n", line.c_str()); }

// The seed, and the shortest run that can be found.
void show(std::uint64_t seed, const SimulationOutcome& broken, Sabotage sabotage) {
  std::printf("seed %" PRIu64 " (%d stages, %" PRIu64 " passes) breaks a promise: %s\n", seed, broken.stages,
              broken.passes, broken.violation.c_str());
  const SimulationOutcome shrunk = stage::shrink(broken, sabotage);
  std::printf("the shortest run found that breaks it (%d stages, %" PRIu64 " passes):\n", shrunk.stages, shrunk.passes);
  stage::replay(shrunk.choices, print_line, sabotage);
}

void add(SimulationOutcome& total, const SimulationOutcome& one) {
  total.digest = (total.digest ^ one.digest) * 1099511628211U;
  total.passes += one.passes;
  total.works += one.works;
  total.messages += one.messages;
  total.misfits += one.misfits;
  total.faults += one.faults;
  total.failures += one.failures;
}

}  // namespace

void simulate_protocol(const ProtocolOptions& options) {
  const Sabotage sabotage = sabotage_of(options.sabotage);
  const auto start = std::chrono::steady_clock::now();
  const Interruptible simulating("simulating");
  SimulationOutcome total;
  for (std::uint64_t done = 0; done < options.seeds; ++done) {
    if (done % kSeedsPerReport == 0 &&
        !simulating.report(static_cast<double>(done) / static_cast<double>(options.seeds)))
      break;
    const std::uint64_t seed = options.first_seed + done;
    if (options.verbose) std::printf("seed %" PRIu64 "\n", seed);
    const SimulationOutcome outcome = stage::simulate(seed, options.verbose ? print_line : stage::Tell(), sabotage);
    add(total, outcome);
    if (outcome.violation.empty()) continue;
    simulating.finish();
    show(seed, outcome, sabotage);
    require(internal("the protocol breaks a promise; seed ", seed, " shows it"));
  }
  simulating.finish();
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%" PRIu64 " seeds in %.1f s: %" PRIu64 " passes in %" PRIu64 " works and %" PRIu64 " messages; %" PRIu64
              " messages that do not fit, %" PRIu64 " faults, %" PRIu64
              " stages ended by them\nevery promise was kept; digest %016" PRIx64 "\n",
              options.seeds, took_s, total.passes, total.works, total.messages, total.misfits, total.faults,
              total.failures, total.digest);
}

}  // namespace ravnest::cli
