#include "ravnest/stage/simulation/checker.h"

#include <algorithm>

namespace ravnest::stage::simulation {

Checker::Checker(const Scenario& scenario)
    : scenario_(scenario),
      async_(scenario.stages[0].schedule == Schedule::kAsync),
      window_(static_cast<std::uint64_t>(scenario.window())),
      spaced_(true) {
  std::uint64_t last_flag = 0;  // one past it
  for (const std::vector<Offer>& call : scenario.calls) {
    for (const Offer& offer : call) {
      offers_.push_back(offer);
      if (!offer.update) continue;
      if (last_flag > 0 && offers_.size() - last_flag < window_) spaced_ = false;
      last_flag = offers_.size();
    }
    ends_of_calls_.push_back(offers_.size());
  }
  flags_.push_back(0);
  truths_.resize(scenario.stages.size());
  from_root_.producers = {0};
  for (int stage = 1; stage < scenario.count(); ++stage) to_all_.consumers.push_back(stage);
  for (Truth& truth : truths_) {
    truth.adopted.resize(scenario.stages.size());
    truth.ties.resize(1);
    truth.held.resize(1);
  }
}

const Neighbours& Checker::neighbours(int stage, std::uint64_t pass) const {
  if (has_no_tensors(pass)) return stage == 0 ? to_all_ : from_root_;
  return trains(pass) ? options(stage).train : options(stage).evaluate;
}

std::uint64_t Checker::first_beside(std::uint64_t pass) const {
  return std::max(pass + 1 - std::min(pass + 1, window_), other_kind_[pass]);
}

// Only of messages that were sent in order to fit.
void Checker::taken(const Event& message) {
  Truth& at = truth(message.to);
  switch (message.kind) {
    case EventKind::kForward: ++at.forwards[message.number]; break;
    case EventKind::kBackward: ++at.answers[message.number]; break;
    case EventKind::kTiedGradients: ++at.ties[message.number]; break;
    case EventKind::kHeld:
      at.held_round = message.number;
      if (is_averaging(message.to)) at.checkpoint_due = message.head.checkpoint;
      break;
    default: break;
  }
}

void Checker::begins(int stage, const Work& work) {
  check_rounds_of(stage, work);
  switch (work.kind) {
    case WorkKind::kForward: forward_begins(stage, work); break;
    case WorkKind::kBackward:
    case WorkKind::kAnswer: backward_begins(stage, work); break;
    case WorkKind::kAverage:
    case WorkKind::kUpdate: update_begins(stage, work); break;
    case WorkKind::kAdopt:
      if (work.number != truth(stage).adopted[static_cast<std::size_t>(work.from)] + 1) {
        violated(Promise::kTiedWeights, "stage ", stage, " adopts values after ", work.number, " updates from stage ",
                 work.from, " out of order");
      }
      break;
  }
}

void Checker::forward_begins(int stage, const Work& work) {
  const std::uint64_t pass = work.head.pass;
  Truth& at = truth(stage);
  if (pass != at.forwarded || (stage > 0 && pass >= heads_.size())) {
    return violated(Promise::kEveryPassOnce, "stage ", stage, " begins pass ", pass, " in place of ", at.forwarded);
  }
  if (stage == 0) {
    root_begins(work.head);
  } else {
    wire::PassHead said = heads_[pass];
    said.updates = work.head.updates;  // what they come to is checked below
    if (work.head != said) {
      violated(Promise::kEveryPassOnce, "stage ", stage, " computes pass ", pass, " as another than the root does");
    }
  }
  if (at.forwards[pass] != neighbours(stage, pass).producers.size()) {
    violated(Promise::kEveryPassOnce, "stage ", stage, " begins pass ", pass, " without all that is sent to it");
  }
  check_in_flight(stage, pass);
  check_version(stage, heads_[pass]);
}

// The books of a pass are opened when the root begins it.
void Checker::root_begins(const wire::PassHead& head) {
  const bool averaging = head.kind == wire::PassKind::kAverage;
  for (int other = 1; other < scenario_.count(); ++other) {
    if (truth(other).calls_entered == truth(0).calls_entered) continue;
    violated(Promise::kCallsTogether, "the root begins pass ", head.pass, " before stage ", other, " is in the call");
  }
  note_pass(head);
  if (head.round > 0) check_round(head);
  if (averaging) return averaging_begins(head);
  if (offers_begun_ == offers_.size()) {
    return violated(Promise::kEveryPassOnce, "the root begins pass ", head.pass, ", which nobody offered");
  }
  offer_begins(head, offers_[offers_begun_++]);
}

void Checker::note_pass(const wire::PassHead& head) {
  const std::uint64_t pass = heads_.size();
  heads_.push_back(head);
  const bool alone = averages(pass) || (pass > 0 && averages(pass - 1));
  const bool changes = pass > 0 && (alone || trains(pass - 1) != trains(pass));
  other_kind_.push_back(pass == 0 ? 0 : changes ? pass : other_kind_.back());
  batch_end_.push_back(pass + head.parts - head.part);
  flags_.push_back(flags_.back() + (head.update || averages(pass) ? 1 : 0));
  for (Truth& at : truths_) {
    at.version.push_back(0);
    at.forwards.push_back(0);
    at.answers.push_back(0);
    at.ties.push_back(0);
    at.held.push_back(0);
  }
}

void Checker::offer_begins(const wire::PassHead& head, const Offer& offer) {
  const bool as_offered = head.kind == offer.kind && head.batch == offer.batch && head.part == offer.part &&
                          head.parts == offer.parts && head.weight == offer.weight && head.update == offer.update &&
                          head.epoch == offer.epoch && head.step == steps_ && head.checkpoint == offer.checkpoint;
  if (!as_offered) {
    violated(Promise::kEveryPassOnce, "the root computes pass ", head.pass, " as another than was offered");
  }
  if (trains(head.pass)) ++steps_;
  if (head.checkpoint > 0) checkpoints_.push_back(head.checkpoint);
  check_mark(head, offer);
}

void Checker::check_in_flight(int stage, std::uint64_t pass) {
  const Truth& at = truth(stage);
  const bool whole_batch = scenario_.stages[0].schedule == Schedule::kGpipe && trains(pass);
  const std::uint64_t first = whole_batch ? pass - heads_[pass].part : pass;
  if (first >= at.backwarded + window_) {
    violated(Promise::kWindow, "stage ", stage, " begins pass ", pass, " while pass ", at.backwarded,
             " is in flight, and the window is ", window_);
  }
  for (int other = 0; other < scenario_.count(); ++other) {
    const std::uint64_t behind = truth(other).backwarded;
    if (behind >= other_kind_[pass]) continue;
    const bool averaging = averages(pass) || averages(behind);
    violated(averaging ? Promise::kAveragingAlone : Promise::kValidation, "stage ", stage, " begins pass ", pass,
             ", which ",
             averages(pass) ? "averages"
             : trains(pass) ? "trains"
                            : "does not train",
             ", while stage ", other, " is not through with pass ", behind);
  }
}

void Checker::check_version(int stage, const wire::PassHead& head) {
  const Truth& at = truth(stage);
  const std::uint64_t before = flags_[head.pass];
  if (at.updates < head.updates || at.updates > before) {
    violated(Promise::kUpdates, "stage ", stage, " begins pass ", head.pass, " with ", at.updates,
             " updates, which asks for ", head.updates, " and follows ", before);
  }
  const Promise exactly = trains(head.pass)     ? Promise::kOneVersion
                          : averages(head.pass) ? Promise::kAveragingAlone
                                                : Promise::kValidation;
  const bool exact = !async_ || !trains(head.pass);
  if (exact && at.updates != before) {
    violated(exactly, "stage ", stage, " begins pass ", head.pass, " with ", at.updates, " updates of ", before);
  }
  if (async_ && at.updates < flags_[first_beside(head.pass)]) {
    violated(Promise::kStaleness, "stage ", stage, " begins pass ", head.pass, " with ", at.updates,
             " updates, though the pass before the window had ", flags_[first_beside(head.pass)]);
  }
  for (const int keeper : options(stage).tied_keepers) {
    const std::uint64_t adopted = at.adopted[static_cast<std::size_t>(keeper)];
    if (adopted < head.updates || adopted > before || (exact && adopted != before)) {
      violated(Promise::kTiedWeights, "stage ", stage, " begins pass ", head.pass, " with tied weights after ", adopted,
               " updates, which asks for ", head.updates, " and follows ", before);
    }
  }
}

void Checker::backward_begins(int stage, const Work& work) {
  const std::uint64_t pass = work.head.pass;
  Truth& at = truth(stage);
  if (pass != at.backwarded || pass >= at.forwarded) {
    return violated(Promise::kEveryPassOnce, "stage ", stage, " ends pass ", pass, " in place of ", at.backwarded);
  }
  if ((work.kind == WorkKind::kBackward) != trains(pass)) {
    violated(Promise::kEveryPassOnce, "stage ", stage, " takes pass ", pass, " for one of another kind");
  }
  const std::size_t ties = !async_ && trains(pass) ? options(stage).tied_users.size() : 0;
  if (at.answers[pass] != neighbours(stage, pass).consumers.size() || (!async_ && at.ties[pass] != ties)) {
    violated(Promise::kAnswersComplete, "stage ", stage, " ends pass ", pass, " after ", int{at.answers[pass]},
             " answers of ", neighbours(stage, pass).consumers.size());
  }
  if (averages(pass) && !at.averaged) {
    violated(Promise::kAveragingAlone, "stage ", stage, " answers averaging pass ", pass, " before its round holds");
  }
  if (!trains(pass)) return;
  if (at.flagged != at.updates) {
    violated(Promise::kUpdates, "stage ", stage, " computes the backward of pass ", pass,
             " before the update that is due");
  }
  const std::uint64_t staleness = at.updates - at.version[pass];
  if (!async_ && staleness != 0) {
    violated(Promise::kOneVersion, "at stage ", stage, " pass ", pass, " is stale by ", staleness);
  }
  if (staleness > flags_[pass] - flags_[first_beside(pass)] || (spaced_ && staleness > 1)) {
    violated(Promise::kStaleness, "at stage ", stage, " pass ", pass, " is stale by ", staleness);
  }
  if (options(stage).schedule == Schedule::kGpipe && at.forwarded < batch_end_[pass]) {
    violated(Promise::kGpipeOrder, "stage ", stage, " computes the backward of pass ", pass, " after ", at.forwarded,
             " forwards, and its batch has ", batch_end_[pass]);
  }
}

void Checker::update_begins(int stage, const Work& work) {
  const Truth& at = truth(stage);
  if (work.number != at.updates || at.flagged != at.updates + 1) {
    return violated(Promise::kUpdates, "stage ", stage, " makes update ", work.number, " after ", at.updates,
                    " updates and ", at.flagged, " flagged passes");
  }
  if ((work.kind == WorkKind::kAverage) != is_averaging(stage)) {
    violated(Promise::kAveragingAlone, "stage ", stage, " takes update ", work.number, " for one of another kind");
  }
  if (work.checkpoint != at.checkpoint_due) {
    violated(Promise::kCheckpoints, "stage ", stage, " makes update ", work.number, " for checkpoint ", work.checkpoint,
             " in place of ", at.checkpoint_due);
  }
  if (work.kind == WorkKind::kAverage) return;
  if (async_ && at.ties[work.number] != options(stage).tied_users.size()) {
    violated(Promise::kAnswersComplete, "stage ", stage, " makes update ", work.number,
             " without all gradients of tied weights");
  }
}

void Checker::ends(int stage, const Work& work) {
  Truth& at = truth(stage);
  const std::uint64_t pass = work.head.pass;
  switch (work.kind) {
    case WorkKind::kForward:
      at.version[pass] = at.updates;
      ++at.forwarded;
      if (averages(pass)) {
        ++at.flagged;
        at.averaged = false;
        break;
      }
      if (has_no_tensors(pass)) break;
      ++(trains(pass) ? at.counts.forwards : at.counts.evaluated);
      at.counts.in_flight_most = std::max<std::size_t>(at.counts.in_flight_most, at.forwarded - at.backwarded);
      if (trains(pass)) hold(at, at.updates);
      break;
    case WorkKind::kBackward: {
      const std::uint64_t staleness = at.updates - at.version[pass];
      at.counts.staleness_sum += staleness;
      at.counts.staleness_most = std::max(at.counts.staleness_most, staleness);
      stale_ += staleness > 0 ? 1 : 0;
      ++at.counts.backwards;
      ++at.backwarded;
      at.flagged += heads_[pass].update ? 1 : 0;
      at.round_due = heads_[pass].round;
      at.checkpoint_due = heads_[pass].checkpoint;
      release(at, at.version[pass]);
      break;
    }
    case WorkKind::kAnswer:
      ++at.backwarded;
      at.averaged = false;
      break;
    case WorkKind::kAverage:
    case WorkKind::kUpdate:
      if (at.held[at.updates] == 0) --at.alive;
      ++at.updates;
      ++at.alive;
      at.averaged = work.kind == WorkKind::kAverage;
      if (!at.averaged) ++at.counts.updates;
      break;
    case WorkKind::kAdopt: at.adopted[static_cast<std::size_t>(work.from)] = work.number; break;
  }
  check_versions(stage);
}

// The newest version is alive in any case.
void Checker::hold(Truth& at, std::uint64_t version) {
  if (at.held[version]++ == 0 && version != at.updates) ++at.alive;
}

void Checker::release(Truth& at, std::uint64_t version) {
  if (--at.held[version] == 0 && version != at.updates) --at.alive;
}

void Checker::check_versions(int stage) {
  const Truth& at = truth(stage);
  const std::uint64_t most = !async_ ? 1 : spaced_ ? 2 : at.forwarded - at.backwarded + 1;
  if (at.alive > most || at.alive > at.forwarded - at.backwarded + 1) {
    violated(Promise::kVersionsFreed, "stage ", stage, " keeps ", at.alive, " versions for ",
             at.forwarded - at.backwarded, " passes in flight");
  }
}

void Checker::takes_snapshot(int stage, std::uint64_t checkpoint) {
  Truth& at = truth(stage);
  ++snapshots_;
  const bool of_round = checkpoint > Scenario::kOfRounds;
  std::uint64_t& last = of_round ? at.last_round_checkpoint : at.last_checkpoint;
  if (of_round ? checkpoint <= last : checkpoint != last + 1) {
    violated(Promise::kCheckpoints, "stage ", stage, " takes a snapshot for checkpoint ", checkpoint,
             " after that for ", last);
  }
  last = checkpoint;
  at.round_checkpoints += of_round ? 1 : 0;
  at.checkpoint_due = 0;
  const std::uint64_t after = taken_after_.emplace(checkpoint, at.updates).first->second;
  if (after != at.updates) {
    violated(Promise::kCheckpoints, "stage ", stage, " takes its snapshot for checkpoint ", checkpoint, " after ",
             at.updates, " updates, another after ", after);
  }
}

}  // namespace ravnest::stage::simulation
