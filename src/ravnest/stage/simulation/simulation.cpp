#include "ravnest/stage/simulation/simulation.h"

#include "ravnest/stage/simulation/run.h"

namespace ravnest::stage {

std::string_view sentence(Promise promise) {
  switch (promise) {
    case Promise::kNothingHangs: return "when nothing is under way, everything is done";
    case Promise::kCallsTogether:
      return "a call has passes when all stages are in it, and is closed when all are through";
    case Promise::kEveryPassOnce: return "every stage computes every pass once, in the order of the root";
    case Promise::kAnswersComplete: return "a backward has all its answers, and an update all its gradients";
    case Promise::kWindow: return "no more passes are in flight than the window has room for";
    case Promise::kUpdates: return "every stage makes one update after each flagged pass, and none besides";
    case Promise::kOneVersion: return "in sync and gpipe a pass has the updates of all batches before it, everywhere";
    case Promise::kStaleness: return "a pass is no staler than updates fit into the window";
    case Promise::kValidation: return "passes that do not train run alone, with all updates before them";
    case Promise::kTiedWeights: return "tied weights are as new as a pass asks for, and equal when a call is over";
    case Promise::kVersionsFreed: return "a version lives as long as it is the newest or a pass holds it";
    case Promise::kGpipeOrder: return "in gpipe all forwards of a batch come before its backwards";
    case Promise::kRounds: return "a round is entered when it is due and the last one holds";
    case Promise::kRoundVersion: return "into a round go the weights after the same update, from every stage once";
    case Promise::kRoundTaken: return "what a round makes is taken in once, and before the stage gives to the next";
    case Promise::kAveragingAlone:
      return "an averaging pass runs alone, with all updates before it, until its round holds";
    case Promise::kCheckpoints:
      return "all stages take their snapshots for a checkpoint after the same update, each of them once";
    case Promise::kFits: return "a message that fits is taken";
    case Promise::kMisfits: return "a message that does not fit is invalid and changes nothing";
    case Promise::kCounts: return "a stage counts what it does";
    case Promise::kFailureTold: return "when a stage fails all others end in time, with a true reason";
    case Promise::kOneReason: return "all stages end with the same reason";
  }
  return "unknown";
}

SimulationOutcome simulate(std::uint64_t seed, const Tell& tell, Sabotage sabotage) {
  simulation::Choices choices(seed);
  return simulation::Run(choices, tell, sabotage).run();
}

SimulationOutcome replay(const std::vector<std::uint64_t>& given, const Tell& tell, Sabotage sabotage) {
  simulation::Choices choices(given);
  return simulation::Run(choices, tell, sabotage).run();
}

}  // namespace ravnest::stage
