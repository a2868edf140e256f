// The agreements of all clusters of a run, on simulated time and a simulated network, drawn from a seed, and a checker
// of what they promise.
//
// The machine is that of agreement.h. All else is drawn: how many clusters there are and when they start, how long they
// train, average and talk, which of them crash, in the middle of whatever they do, come back or leave, and which pairs
// do not reach each other. The network keeps what transport/endpoint.h promises and nothing more. The rings are
// simulated: a participant gets the result after a while, where all participants begin the attempt and live long
// enough, and some get it where others do not.
//
// The same seed gives the same run, event by event. No threads, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ravnest::average {

// Something done wrong on purpose, to see that the checker finds it.
enum class Sabotage : std::uint8_t {
  kNone,
  kClaimsCompletion,  // stands say that the result is there as soon as the attempt is begun
  kDoesNotWait,       // has no patience: leaders begin without those who do not follow them yet
  kCountsNewcomers,   // stands of newcomers say that they are none
  kLosesResults,      // one in five
  kClaimsSnapshots,   // stands say that a checkpoint can be made where it can't
};

struct SimulationOutcome {
  std::string violation;     // the first broken promise; empty: none
  std::uint64_t digest = 0;  // of everything that happened, in order
  int clusters = 0;
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  std::uint64_t attempts = 0;  // that some participant began
  std::uint64_t commits = 0;   // rounds held, each counted at each cluster
  std::uint64_t rounds = 0;    // the most that one cluster held
  std::uint64_t crashes = 0;
  std::uint64_t returns = 0;    // of crashed clusters
  std::uint64_t newcomers = 0;  // that held a round
  std::uint64_t outs = 0;
  std::uint64_t partings = 0;     // of two that live both
  std::uint64_t checkpoints = 0;  // each counted at each cluster
  std::uint64_t misfits = 0;      // messages that do not fit
  std::uint64_t ignored = 0;      // messages

  // The sum of what was counted.
  SimulationOutcome& operator+=(const SimulationOutcome& other);
};

// Is told every event, as a line.
using Tell = std::function<void(const std::string&)>;

SimulationOutcome simulate(std::uint64_t seed, const Tell& tell = {}, Sabotage sabotage = Sabotage::kNone);

}  // namespace ravnest::average
