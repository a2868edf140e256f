// What is promised of the rounds in which clusters average their weights.
#include <utility>

#include "ravnest/stage/simulation/checker.h"

namespace ravnest::stage::simulation {

// -- which passes take part in a round

void Checker::check_round(const wire::PassHead& head) {
  const Truth& root = truth(0);
  if (head.round != given_after_.size() + 1 || root.held_round + 1 != head.round) {
    violated(Promise::kRounds, "the root begins round ", head.round, " with pass ", head.pass, ", after ",
             given_after_.size(), " rounds, of which it has heard that ", root.held_round, " hold");
  }
  given_after_.push_back(kNobody);
}

bool Checker::is_due(const Offer& offer) const {
  const Rounds& rounds = scenario_.rounds();
  if (!rounds.held || !offer.update) return false;
  if (rounds.every > 0) return updates_since_round_ + 1 >= rounds.every;
  return round_epoch_ && *round_epoch_ != offer.epoch;
}

// Marks that nobody called for are foreseen. A call may come when the next pass is made already and can't begin yet.
void Checker::check_mark(const wire::PassHead& head, const Offer& offer) {
  if (drain_due_) violated(Promise::kRounds, "the root begins pass ", head.pass, ", where an averaging pass is due");
  if (offer.kind != wire::PassKind::kTrain) {
    if (head.round > 0) violated(Promise::kRounds, "pass ", head.pass, " takes part in a round and does not train");
    return;
  }
  samples_since_round_ += offer.samples;
  const bool drains = scenario_.rounds().mode == AverageMode::kDrain;
  const bool due = is_due(offer);
  const bool called_for = calls_ > 0 && offer.update;
  if (head.round > 0 ? drains || !(due || called_for) : due && !drains) {
    violated(Promise::kRounds, "pass ", head.pass, head.round > 0 ? " is marked" : " is not marked", " for a round");
  }
  drain_due_ = due && drains;
  if (!round_epoch_ || due || head.round > 0) round_epoch_ = offer.epoch;
  if (head.round > 0) {
    round_samples_ = std::exchange(samples_since_round_, 0);
    updates_since_round_ = updates_to_heed_ = 0;
  } else if (offer.update) {
    ++updates_since_round_;
    if (updates_to_heed_ > 0 && --updates_to_heed_ == 0) {
      violated(Promise::kRounds, "pass ", head.pass, " is the last of several that begin though a round is called for");
    }
  }
}

void Checker::called() {
  ++calls_;
  if (updates_to_heed_ == 0) updates_to_heed_ = scenario_.rounds().mode == AverageMode::kDrain ? 3 : 2;
}

void Checker::averaging_begins(const wire::PassHead& head) {
  const bool called_for = calls_ > 0 && scenario_.rounds().mode == AverageMode::kDrain;
  if (!drain_due_ && !averaging_asked_ && !called_for) {
    violated(Promise::kRounds, "pass ", head.pass, " averages, and nothing asks for it");
  }
  const bool within_batch = head.pass > 0 && trains(head.pass - 1) && batch_end_[head.pass - 1] > head.pass;
  if (within_batch) violated(Promise::kAveragingAlone, "pass ", head.pass, " averages in the middle of a batch");
  if (head.round == 0) violated(Promise::kRounds, "pass ", head.pass, " averages, and takes part in no round");
  ++averagings_;
  drain_due_ = averaging_asked_ = false;
  updates_since_round_ = updates_to_heed_ = 0;
  round_samples_ = std::exchange(samples_since_round_, 0);
}

void Checker::enters(std::uint64_t round, std::uint64_t samples) {
  if (samples != round_samples_) {
    violated(Promise::kRounds, "the root enters round ", round, " with ", samples, " samples of ", round_samples_);
  }
}

// -- what goes in and out

// What the stage means to do; `gives` and `takes` hear what its driver does.
void Checker::check_rounds_of(int stage, const Work& work) {
  const Truth& at = truth(stage);
  const bool updates = work.kind == WorkKind::kUpdate || work.kind == WorkKind::kAverage;
  const bool averages_now = work.kind == WorkKind::kForward && work.head.kind == wire::PassKind::kAverage;
  const std::uint64_t there = (updates || averages_now) && at.held_round > at.taken ? at.held_round : 0;
  if (work.takes != there) {
    violated(Promise::kRoundTaken, "stage ", stage, " takes in round ", work.takes, " where it should round ", there);
  }
  const std::uint64_t due = work.kind == WorkKind::kUpdate ? at.round_due : 0;
  if (work.gives != due) {
    violated(Promise::kRoundVersion, "stage ", stage, " gives to round ", work.gives, " where it should to round ",
             due);
  }
  if (work.kind == WorkKind::kAverage && at.held_round != at.entered) {
    violated(Promise::kAveragingAlone, "stage ", stage, " ends its averaging pass before round ", at.entered, " holds");
  }
}

void Checker::gives(int stage, std::uint64_t round) {
  Truth& at = truth(stage);
  if (round != at.entered + 1 || round > given_after_.size()) {
    return violated(Promise::kRoundVersion, "stage ", stage, " gives to round ", round, " after round ", at.entered);
  }
  if (at.taken + 1 != round) {
    violated(Promise::kRoundTaken, "stage ", stage, " gives to round ", round, " and has taken in round ", at.taken);
  }
  at.entered = round;
  at.round_due = 0;
  std::uint64_t& after = given_after_[round - 1];
  if (after == kNobody) after = at.updates;
  if (after != at.updates) {
    violated(Promise::kRoundVersion, "stage ", stage, " gives its weights after ", at.updates, " updates to round ",
             round, ", another after ", after);
  }
}

void Checker::takes(int stage, std::uint64_t round) {
  Truth& at = truth(stage);
  if (round != at.taken + 1 || round > at.held_round) {
    violated(Promise::kRoundTaken, "stage ", stage, " takes in round ", round, " after round ", at.taken, ", where ",
             at.held_round, " hold");
  }
  at.taken = round;
  ++at.counts.rounds;
}

}  // namespace ravnest::stage::simulation
