// What has to hold where a call ends, and at the end of all.
#include "ravnest/stage/simulation/checker.h"

namespace ravnest::stage::simulation {

void Checker::call_over(int stage) {
  Truth& at = truth(stage);
  if (at.calls_over == ends_of_calls_.size()) {
    return violated(Promise::kEveryPassOnce, "stage ", stage, " ends more calls than there were");
  }
  if (stage == 0) {
    passes_of_calls_.push_back(at.forwarded);
    if (offers_begun_ != ends_of_calls_[at.calls_over]) {
      violated(Promise::kEveryPassOnce, "the root ends the call of the first ", ends_of_calls_[at.calls_over],
               " offers after ", offers_begun_);
    }
    if (averaging_asked_ || drain_due_) violated(Promise::kRounds, "the root ends a call without an averaging pass");
  }
  if (at.calls_over == passes_of_calls_.size()) {
    return violated(Promise::kEveryPassOnce, "stage ", stage, " ends a call before the root");
  }
  const std::uint64_t end = passes_of_calls_[at.calls_over++];
  if (at.backwarded < end) {
    violated(Promise::kEveryPassOnce, "stage ", stage, " ends the call of the first ", end, " passes after ",
             at.backwarded);
  }
  const std::uint64_t due = flags_[at.backwarded] + (at.averaged ? 1 : 0);
  if (at.updates < flags_[end] || at.updates != due) {
    violated(Promise::kUpdates, "stage ", stage, " ends a call with ", at.updates, " updates of ", due);
  }
  for (const int keeper : options(stage).tied_keepers) {
    const std::uint64_t adopted = at.adopted[static_cast<std::size_t>(keeper)];
    if (adopted != at.updates) {
      violated(Promise::kTiedWeights, "stage ", stage, " ends a call with tied weights after ", adopted, " updates of ",
               at.updates);
    }
  }
  if (at.forwarded == at.backwarded && at.alive != 1) {
    violated(Promise::kVersionsFreed, "stage ", stage, " ends a call with ", at.alive, " versions");
  }
}

void Checker::call_closed(int stage, std::size_t call) {
  for (int other = 0; other < scenario_.count(); ++other) {
    if (truth(other).calls_over > call) continue;
    violated(Promise::kCallsTogether, "call ", call, " is closed at stage ", stage, ", and stage ", other,
             " is not through");
  }
  ++truth(stage).calls_closed;
}

void Checker::all_done(const std::vector<const Stage*>& stages) {
  for (int stage = 0; stage < scenario_.count(); ++stage) all_done(stage, *stages[static_cast<std::size_t>(stage)]);
}

void Checker::all_done(int stage, const Stage& machine) {
  const Truth& at = truth(stage);
  if (at.forwarded != heads_.size() || at.backwarded != heads_.size() || offers_begun_ != offers_.size()) {
    violated(Promise::kEveryPassOnce, "stage ", stage, " has computed ", at.backwarded, " passes of ", heads_.size(),
             ", and ", offers_begun_, " offers of ", offers_.size(), " were begun");
  }
  if (at.calls_over != scenario_.calls.size() || at.calls_closed != scenario_.calls.size()) {
    violated(Promise::kNothingHangs, "stage ", stage, " waits for the end of call ", at.calls_closed);
  }
  if (at.updates != flags_.back()) {
    violated(Promise::kUpdates, "stage ", stage, " has made ", at.updates, " updates of ", flags_.back());
  }
  for (const int keeper : options(stage).tied_keepers) {
    if (at.adopted[static_cast<std::size_t>(keeper)] != truth(keeper).updates) {
      violated(Promise::kTiedWeights, "stage ", stage, " has not adopted all values of stage ", keeper);
    }
  }
  if (at.alive != 1) violated(Promise::kVersionsFreed, "stage ", stage, " keeps ", at.alive, " versions at the end");
  if (!checkpoints_.empty() && at.last_checkpoint != checkpoints_.back()) {
    violated(Promise::kCheckpoints, "stage ", stage, " took its last snapshot for checkpoint ", at.last_checkpoint,
             ", and the last that was begun is ", checkpoints_.back());
  }
  if (at.round_checkpoints != truth(0).round_checkpoints) {
    violated(Promise::kCheckpoints, "stage ", stage, " has taken snapshots for ", at.round_checkpoints,
             " checkpoints of rounds, the root for ", truth(0).round_checkpoints);
  }
  const bool same_rounds = machine.rounds().entered() == at.entered && machine.rounds().taken() == at.taken;
  if (!machine.idle() || !same_rounds || machine.updates() != at.updates || machine.passes_begun() != at.forwarded ||
      machine.counts() != at.counts) {
    violated(Promise::kCounts, "stage ", stage, " counts otherwise than the checker");
  }
}

}  // namespace ravnest::stage::simulation
