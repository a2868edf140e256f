// What befalls the stages of a run, how they end then, and what is checked of that.
#include <algorithm>

#include "ravnest/stage/simulation/run.h"
#include "ravnest/stage/simulation/story.h"

namespace ravnest::stage::simulation {
namespace {

bool same(const wire::Failed& one, const wire::Failed& other) {
  return one.stage == other.stage && one.lost == other.lost && one.reason == other.reason;
}

}  // namespace

void Run::strike(const Fault& fault) {
  Node& at = node(fault.stage);
  const bool lives = at.state == State::kRunning || at.state == State::kEnding;
  if (!lives) return;
  if (fault.kind == FaultKind::kFails) {
    at.fails_next = true;
    return;
  }
  if (fault.kind == FaultKind::kParted) {
    if (fault.stage == fault.other || network_.parted(fault.stage, fault.other)) return;
    say("stages ", fault.stage, " and ", fault.other, " do not reach each other any more");
    lose(fault.stage, fault.other);
    pair_parted_ = true;
    struck_[static_cast<std::size_t>(fault.other)] = true;
  } else {
    say("stage ", fault.stage, fault.kind == FaultKind::kKilled ? " is killed" : " can't be reached any more");
    if (fault.kind == FaultKind::kKilled) at.state = State::kDead;
    at.isolated = true;
    if (at.ending.begun()) lost_after_telling_ = true;
    for (int other = 0; other < scenario_.count(); ++other) {
      if (other != fault.stage && !network_.parted(fault.stage, other)) lose(fault.stage, other);
    }
  }
  struck_[static_cast<std::size_t>(fault.stage)] = true;
  ++outcome_.faults;
  last_fault_at_ = network_.now();
}

void Run::lose(int one, int other) {
  network_.part(one, other);
  for (const auto& [at, of] : {std::pair{one, other}, std::pair{other, one}}) {
    network_.after(choices_.pick(scenario_.detection_most),
                   {.kind = EventKind::kLost, .to = at, .from = of, .number = 0, .head = {}});
  }
}

// A work of the stage does, perhaps one that was under way when the run had failed already.
void Run::throws(int index) {
  Node& at = node(index);
  say("stage ", index, " fails by itself");
  at.fails_next = false;
  ++outcome_.faults;
  failed_[static_cast<std::size_t>(index)] = struck_[static_cast<std::size_t>(index)] = true;
  last_fault_at_ = network_.now();
  std::optional<wire::Failed> to_tell = at.ending.fail({static_cast<std::uint32_t>(index), false, "threw"});
  if (sabotage_ == Sabotage::kHidesItsFailure) to_tell.reset();
  fails(index, to_tell);
}

void Run::fails(int index, const std::optional<wire::Failed>& to_tell) {
  Node& at = node(index);
  if (at.state == State::kRunning) {
    at.state = State::kEnding;
    network_.after(kSettleTime, {.kind = EventKind::kSettled, .to = index, .from = index, .number = 0, .head = {}});
  }
  if (to_tell) {
    if (tell_) say("stage ", index, " tells all: ", in_words(*to_tell));
    told_.push_back(*to_tell);
    for (int other = 0; other < scenario_.count(); ++other) {
      if (other != index) send(EventKind::kFailed, index, other, told_.size() - 1, Lane::kUrgent);
    }
  }
  end_if_settled(index);
}

void Run::end_if_settled(int index) {
  const Node& at = node(index);
  if (at.state != State::kEnding) return;
  if (at.ending.settled() || sabotage_ == Sabotage::kDoesNotWait) end(index);
}

void Run::end(int index) {
  if (tell_) say("stage ", index, " ends: ", in_words(node(index).ending.reason()));
  ++outcome_.failures;
  leave(index, State::kEnded);
}

void Run::leave(int index, State state) {
  Node& at = node(index);
  at.state = state;
  at.ended_at = network_.now();
  for (int other = 0; other < scenario_.count(); ++other) {
    if (other != index) network_.leave(index, other);
  }
}

// -- the end

void Run::check_the_end() {
  if (outcome_.faults > 0) check_failure();
  const auto left = [](const Node& one) { return one.state == State::kLeft; };
  if (outcome_.faults > 0 && !std::ranges::all_of(nodes_, left)) return;
  std::vector<const Stage*> stages;
  for (int index = 0; index < scenario_.count(); ++index) {
    const Node& at = node(index);
    stages.push_back(&at.stage);
    if (at.state == State::kEnded) {
      checker_.violated(Promise::kFailureTold, "stage ", index, " ends though nothing has failed");
    } else if (!left(at)) {
      checker_.violated(Promise::kNothingHangs, "stage ", index, " waits, after ", checker_.forwarded(index),
                        " forwards, ", checker_.backwarded(index), " backwards and ", checker_.updates(index),
                        " updates");
    }
  }
  checker_.all_done(stages);
}

void Run::check_failure() {
  const Time latest = last_fault_at_ + scenario_.detection_most + 2 * scenario_.slowest_news() + kSettleTime;
  const wire::Failed* first = nullptr;
  for (int index = 0; index < scenario_.count(); ++index) {
    const Node& at = node(index);
    if (at.state == State::kLeft || at.state == State::kDead) continue;
    if (at.state != State::kEnded) {
      checker_.violated(Promise::kFailureTold, "stage ", index, " never ends");
      continue;
    }
    const wire::Failed& reason = at.ending.reason();
    if (at.ended_at > latest) {
      checker_.violated(Promise::kFailureTold, "stage ", index, " ends at ", at.ended_at, " us, after ", latest, " us");
    }
    if (!is_true(reason)) {
      checker_.violated(Promise::kFailureTold, "stage ", index, " ends because ", in_words(reason),
                        ", which is not so");
    }
    if (at.isolated || !one_reason_is_promised()) continue;
    if (first != nullptr && !same(*first, reason)) {
      checker_.violated(Promise::kOneReason, "stage ", index, " ends because ", in_words(reason), ", another because ",
                        in_words(*first));
    }
    if (first == nullptr) ++outcome_.agreements;
    first = &reason;
  }
}

// Everyone tells once. So a stage that is lost after telling may have told some of the others and not all, and who
// learned from it what no one else knew can't tell it on, having told before. Where all that happens happens to one
// stage, whoever hears from it tells just that. Parted pairs never hear each other; and who is slower than the settle
// time allows is not waited for.
bool Run::one_reason_is_promised() const {
  if (pair_parted_ || 4 * scenario_.slowest_news() >= kSettleTime) return false;
  return !lost_after_telling_ || std::ranges::count(struck_, true) == 1;
}

bool Run::is_true(const wire::Failed& reason) const {
  const auto stage = static_cast<int>(reason.stage);
  if (!reason.lost) return failed_[reason.stage];
  for (int other = 0; other < scenario_.count(); ++other) {
    if (network_.parted(stage, other)) return true;
  }
  return false;
}

SimulationOutcome Run::outcome() {
  outcome_.violation = checker_.violation();
  outcome_.promise = checker_.promise();
  if (!outcome_.violation.empty()) {
    say("BROKEN: ", outcome_.violation);
    outcome_.choices = choices_.made();
  }
  outcome_.digest = digest_;
  outcome_.stages = scenario_.count();
  outcome_.passes = checker_.passes();
  outcome_.averagings = checker_.averagings();
  outcome_.snapshots = checker_.snapshots();
  outcome_.stale = checker_.stale();
  return std::move(outcome_);
}

}  // namespace ravnest::stage::simulation
