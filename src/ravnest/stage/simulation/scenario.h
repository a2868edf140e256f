// What a simulated cluster is, what it is asked to do and what befalls it. Times in microseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/stage/simulation/choices.h"
#include "ravnest/stage/stage.h"

namespace ravnest::stage::simulation {

using Time = std::uint64_t;

constexpr Time kSettleTime = 3'000'000;  // after which a stage ends whomever it has not heard

enum class FaultKind : std::uint8_t {
  kFails,     // an exception in a work, the next one that ends
  kKilled,    // the process is gone
  kIsolated,  // it lives, but no one reaches it any more
  kParted,    // it and one other do not reach each other
};

struct Fault {
  FaultKind kind = FaultKind::kFails;
  int stage = 0;
  int other = 0;           // kParted
  std::uint64_t turn = 0;  // it happens before this event of the run
};

// How the driver of one stage behaves.
struct Habits {
  Time work_most = 0;
  Time pause_most = 0;  // between two calls
  bool reads_while_working = false;
};

struct Scenario {
  std::vector<StageOptions> stages;
  std::vector<Habits> habits;
  std::vector<std::vector<Offer>> calls;
  std::uint64_t offered_ahead = 1;  // passes that the root's driver offers before they can begin
  Time offer_pause_most = 0;
  Time delay_most = 0;  // of a message
  std::uint64_t late_percent = 0;
  Time detection_most = 0;  // until a loss is known
  std::uint64_t misfit_percent = 0;
  std::vector<Fault> faults;
  Time hold_most = 0;                 // until a round holds that all stages gave to, and until each hears of it
  std::uint64_t call_percent = 0;     // another cluster calls for a round, each time that the root looks
  std::uint64_t average_percent = 0;  // the same, and the root is asked for an averaging pass
  std::vector<bool> averages_at_end;  // by call
  std::uint64_t round_checkpoint_percent = 0;  // a checkpoint is made of a round

  // The checkpoint of a round has this number more; marks and snapshot passes are numbered one after the other.
  static constexpr std::uint64_t kOfRounds = 1'000'000;

  const Rounds& rounds() const { return stages[0].rounds; }
  int count() const { return static_cast<int>(stages.size()); }
  int window() const { return stages[0].window > 0 ? stages[0].window : count(); }
  static constexpr Time kLateFactor = 10;
  Time slowest_message() const { return late_percent > 0 ? delay_most * kLateFactor : delay_most; }
  // Until a message that was sent has been read.
  Time slowest_news() const;
};

Scenario draw_scenario(Choices& choices);

}  // namespace ravnest::stage::simulation
