// The endings of whole data-parallel runs, on simulated time and a simulated network, drawn from a seed, and a checker
// of what they promise: all ranks that live end, in time, with one sentence, which is true.
//
// The machine is rank_ending.h's. All else is drawn: how many ranks there are, which of them fail, are killed or leave
// while others need them, most of it within a moment, how long each message travels, what of it a killed rank still got
// out, and when each of the others sees that it is gone or that something broke. The network keeps what
// transport/endpoint.h promises and nothing more. The same seed gives the same run. No threads, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ravnest::strategy {

// A driver that does something wrong on purpose, to see that the checker finds it.
enum class EndingSabotage : std::uint8_t {
  kNone,
  kTellsOnce,        // passes nothing on that is better than what was told before
  kHidesItsFailure,  // every rank tells no one of its own failure
  kForgetsTheTime,   // rank 0 is never told what time it is
};

struct EndingsOutcome {
  std::string violation;  // the first broken promise; empty: none
  std::uint64_t messages = 0;
  std::uint64_t failures = 0;
  std::uint64_t kills = 0;
  std::uint64_t kills_while_ending = 0;
  std::uint64_t leaves = 0;  // while others needed the rank
  std::uint64_t breaks = 0;
  std::uint64_t endings = 0;  // of ranks

  // The sum of what was counted.
  EndingsOutcome& operator+=(const EndingsOutcome& other);
};

EndingsOutcome simulate_endings(std::uint64_t seed, const std::function<void(const std::string&)>& tell = {},
                                EndingSabotage sabotage = EndingSabotage::kNone);

}  // namespace ravnest::strategy
