// Whole clusters of stages on simulated time and a simulated network, drawn from a seed, and a checker of what they
// promise.
//
// The machines are those of stage.h, call.h and ending.h. All else is drawn: how many stages there are and who sends to
// whom, the schedule and the window, the calls and their passes, tied weights, how long each work takes and each
// message travels, rounds with other clusters, what fails, and messages that do not fit. The network keeps what
// transport/endpoint.h promises and nothing more: messages of one lane from one stage to another come once and in
// order, lanes and pairs overtake each other, and a stage that is lost takes with it what was under way.
//
// The same seed gives the same run, event by event. Every choice comes from one list of numbers, where smaller numbers
// are simpler; a run that breaks a promise is cut down to a short list that breaks it too. No threads, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::stage {

// What is checked.
enum class Promise : std::uint8_t {
  kNothingHangs,
  kCallsTogether,
  kEveryPassOnce,
  kAnswersComplete,
  kWindow,
  kUpdates,
  kOneVersion,
  kStaleness,
  kValidation,
  kTiedWeights,
  kVersionsFreed,
  kGpipeOrder,
  kRounds,
  kRoundVersion,
  kRoundTaken,
  kAveragingAlone,
  kCheckpoints,
  kFits,
  kMisfits,
  kCounts,
  kFailureTold,
  kOneReason,
};
std::string_view sentence(Promise promise);

// A driver that does something wrong on purpose, to see that the checker finds it. At stage 1, where not said
// otherwise.
enum class Sabotage : std::uint8_t {
  kNone,
  kAnswersTwice,
  kForgetsAForward,  // the third that it should send
  kClosesAlone,      // the root: closes a call without waiting for the accounts of others
  kIgnoresUpdates,   // begins passes without the updates that they ask for
  kWidensTheWindow,  // everywhere, by one pass
  kHidesItsFailure,  // every stage: tells no one of its own failure
  kDoesNotWait,      // every stage: ends with the first reason that it hears
  kGivesTooSoon,     // before the update after which it should
  kSkipsAResult,     // takes in no round's
  kHoldsByItself,    // the root: goes on as if every round held as soon as it is entered
  kSnapshotTooSoon,  // before the update after which it should
};

struct SimulationOutcome {
  std::string violation;  // the first broken promise, in words; empty: none
  Promise promise = Promise::kNothingHangs;
  std::uint64_t digest = 0;  // of everything that happened, in order
  int stages = 0;
  std::uint64_t passes = 0;  // of the whole run, as far as it came
  std::uint64_t works = 0;
  std::uint64_t messages = 0;
  std::uint64_t misfits = 0;
  std::uint64_t faults = 0;
  std::uint64_t failures = 0;          // stages that ended with a reason
  std::uint64_t agreements = 0;        // runs that failed, and had to with one reason
  std::uint64_t rounds = 0;            // that held
  std::uint64_t averagings = 0;        // averaging passes
  std::uint64_t snapshots = 0;         // that stages took for checkpoints
  std::uint64_t stale = 0;             // backwards with updates since their forward
  std::vector<std::uint64_t> choices;  // where a promise was broken: all that were made
};

// Is told every event, as a line.
using Tell = std::function<void(const std::string&)>;

SimulationOutcome simulate(std::uint64_t seed, const Tell& tell = {}, Sabotage sabotage = Sabotage::kNone);

// The run that these choices make; after their end, zeros.
SimulationOutcome replay(const std::vector<std::uint64_t>& choices, const Tell& tell = {},
                         Sabotage sabotage = Sabotage::kNone);

// Fewer and smaller choices that break the same promise, found with at most `runs` runs.
SimulationOutcome shrink(const SimulationOutcome& broken, Sabotage sabotage = Sabotage::kNone, int runs = 20'000);

}  // namespace ravnest::stage
