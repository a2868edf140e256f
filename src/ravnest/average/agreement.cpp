#include "ravnest/average/agreement.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/check.h"

namespace ravnest::average {
namespace {

// No run gets as far, so what comes after these numbers never wraps.
constexpr std::uint64_t kMost = std::uint64_t{1} << 62;

bool sane(const auto& message) {
  return message.round <= kMost && message.attempt <= kMost && message.checkpoint <= kMost;
}

}  // namespace

Agreement::Agreement(int self, int clusters)
    : self_(self), clusters_(clusters), joining_(self), peers_(static_cast<std::size_t>(clusters)) {
  RAVNEST_CHECK(self >= 0 && self < clusters, "there is no cluster ", self, " of ", clusters);
}

// -- what the owner says

Agreement::Actions Agreement::enter(double weight, Capture capture) {
  entered_ = true;
  entry_ = {weight, capture};
  return settle();
}

Agreement::Actions Agreement::finish(double weight, Capture capture) {
  finished_ = true;
  // What was entered before must not weigh for samples that came after it: those wait for the round after this one.
  if (entered_) {
    entry_after_ = {weight, capture};
  } else {
    entered_ = true;
    entry_ = {weight, capture};
  }
  return settle();
}

Agreement::Actions Agreement::resume() {
  // It was `finish` that entered it then. An attempt that has begun with it goes on all the same.
  if (finished_ && !entry_after_) entered_ = false;
  finished_ = false;
  entry_after_.reset();
  return settle();
}

Agreement::Actions Agreement::complete(std::uint64_t attempt) {
  // The result of an attempt that was given up meanwhile is worth nothing: others may not have it.
  if (open_ && open_->attempt == attempt) complete_ = true;
  return settle();
}

Agreement::Actions Agreement::missing(int cluster) {
  if (is_other(cluster) && open_) missing_.insert(cluster);
  return settle();
}

Agreement::Actions Agreement::begin_without_the_unseen() {
  unseen_given_up_ = patience_over_ = true;
  return settle();
}

// -- what comes from the network

Agreement::Actions Agreement::on_peer(int cluster, bool up) {
  if (!is_other(cluster) || peer(cluster).up == up) return {};
  const bool seen = peer(cluster).seen || up;
  // The next connection may be to another process of the same name, which knows nothing of what this one said.
  peer(cluster) = {};
  peer(cluster).seen = seen;
  peer(cluster).up = up;
  barred_.erase(cluster);
  patience_over_ = false;
  ++changes_;
  // A participant that was not up here yet when the attempt began becomes a companion when it comes. One that was lost
  // does not: whether it has the result can't be known any more.
  if (!up) {
    companions_.erase(cluster);
  } else if (expected_.erase(cluster) > 0) {
    companions_.insert(cluster);
  }
  return settle();
}

Agreement::Actions Agreement::on_message(int from, const wire::Averaging& message) {
  const bool is_peer = is_other(from) && peer(from).up;
  if (!is_peer || !std::visit([&](const auto& each) { return hear(from, each); }, message)) {
    ++ignored_;
    return {};
  }
  return settle();
}

bool Agreement::hear(int from, const ClusterState& state) {
  const auto is_cluster = [&](std::uint32_t cluster) { return std::cmp_less(cluster, clusters_); };
  if (!sane(state) || !is_cluster(state.leader) || !std::ranges::all_of(state.companions, is_cluster)) return false;
  // Also of attempts without this cluster: should it lead, its own numbers have to be above all of them.
  greatest_ = std::max(greatest_, state.attempt);
  peer(from).sent_out = false;
  const ClusterState* before = state_of(from);
  if (before == nullptr || before->leader != state.leader || before->companions != state.companions) {
    patience_over_ = false;
    ++changes_;
  }
  peer(from).state = state;
  // It followed when the attempt was begun, and may have changed its mind before it heard of it.
  if (companions_.contains(from) && std::cmp_not_equal(state.leader, self_)) own_ = false;
  return true;
}

bool Agreement::hear(int from, const Attempt& attempt) {
  const bool fits = std::ranges::all_of(attempt.participants, [&](const wire::Participant& participant) {
    return std::cmp_less(participant.cluster, clusters_);
  });
  if (!sane(attempt) || !fits || from != leader()) return false;
  // A newcomer's number of the round may be from before the others went on; that of its group counts.
  const bool adopts = newcomer_ && companions_.empty();
  if ((attempt.round != round_ && !adopts) || attempt.attempt <= attempt_ || !has_participant(attempt, self_))
    return false;
  round_ = attempt.round;
  begin(attempt);
  own_ = false;
  return true;
}

bool Agreement::hear(int from, const wire::CommitAttempt& commit) {
  if (from != leader() || commit.attempt != attempt_) return false;
  // The leader's state, or another participant's, may have said so before the commit came (`learn`).
  const bool known = commit.round + 1 == round_ && !open_;
  if (known) return true;
  if (!complete_ || commit.round != round_) return false;
  hold();
  return true;
}

bool Agreement::hear(int from, const wire::CallRound& call) {
  if (from != leader() || call.round != round_) return false;
  called_ = true;
  return true;
}

// Who is out already is so for a reason that came later.
bool Agreement::hear(int from, const wire::SendOut& out) {
  if (from != leader() || companions_.empty() || out.attempt != attempt_) return false;
  go_out(out.round);
  if (out.alone) peer(from).turned_us_away = patience_over_ = true;
  return true;
}

// -- what follows from it

Agreement::Actions Agreement::settle() {
  // What each step changes may let an earlier one go on. Learning of a commit goes first: who gave up its companions
  // while it had the result would be out of a round that holds for the others. `tell` after each change keeps the order
  // in which others hear of things the order in which they were decided.
  while (learn() || give_up() || adopt_round() || decide()) tell();
  tell();
  return std::exchange(actions_, {});
}

// Only a commit leads from an attempt to the next round, unless one is out in between and has no companions.
bool Agreement::learn() {
  if (!complete_) return false;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    const ClusterState* other = state_of(cluster);
    if (other == nullptr || other->companions.empty()) continue;
    if (other->attempt != attempt_ || other->round != round_ + 1) continue;
    hold();
    return true;
  }
  return false;
}

void Agreement::tell() {
  // To be remembered: `leader` stays with the group that it has told others it is about to join.
  joining_ = companions_.empty() ? leader() : self_;
  const ClusterState now = state();
  const bool changed = now != told_;
  told_ = now;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (!is_other(cluster) || !peer(cluster).up || (peer(cluster).told && !changed)) continue;
    peer(cluster).told = true;
    send(cluster, now);
  }
}

void Agreement::begin(const Attempt& attempt) {
  RAVNEST_CHECK(attempt.attempt > attempt_ && attempt.round == round_ && has_participant(attempt, self_), "cluster ",
                self_, " begins attempt ", attempt.attempt, " after ", attempt_);
  open_ = attempt;
  attempt_ = attempt.attempt;
  greatest_ = std::max(greatest_, attempt_);
  // All that was known of the attempt before is void. Its participants are the companions from here on.
  complete_ = false;
  missing_.clear();
  companions_.clear();
  expected_.clear();
  for (const wire::Participant& participant : attempt.participants) {
    const int cluster = static_cast<int>(participant.cluster);
    (cluster == self_ || peer(cluster).up ? companions_ : expected_).insert(cluster);
  }
  actions_.emplace_back(Begin{attempt});
}

void Agreement::hold() {
  RAVNEST_CHECK(open_ && complete_ && open_->round == round_, "cluster ", self_, " holds round ", round_,
                " without its result");
  last_held_ = open_->last;
  actions_.emplace_back(Holds{round_, attempt_, last_held_});
  // What it finished with while it was entered is due in the very next round.
  ++round_;
  entered_ = entry_after_.has_value();
  const Capture capture = entry_.capture;
  entry_ = std::exchange(entry_after_, std::nullopt).value_or(Entry());
  // Who has finished takes part in all that follow, by passes that any checkpoint can come after.
  if (finished_ && !entered_) entry_.capture = capture;
  if (open_->checkpoint > 0) {
    last_checkpoint_ = open_->checkpoint;
    entry_.capture.due = false;
  }
  for_checkpoint_ = open_->checkpoint_next;
  newcomer_ = called_ = complete_ = own_ = false;
  open_.reset();
  missing_.clear();
  barred_.clear();
}

void Agreement::go_out(std::uint64_t their_round) {
  // Before the first round all have the weights that the run began with, and nobody is a newcomer.
  newcomer_ = newcomer_ || std::max(round_, their_round) > 1;
  entered_ = finished_;
  // The owner enters again with what was given; that of a cluster that has finished is its last.
  entry_ = std::exchange(entry_after_, std::nullopt).value_or(entry_);
  complete_ = own_ = last_held_ = false;
  open_.reset();
  missing_.clear();
  barred_.clear();
  companions_.clear();
  expected_.clear();
  joining_ = self_;
  actions_.emplace_back(Out{});
}

// -- how it is

bool Agreement::is_other(int cluster) const { return cluster >= 0 && cluster < clusters_ && cluster != self_; }

bool Agreement::has_participant(const Attempt& attempt, int cluster) {
  return std::ranges::any_of(attempt.participants, [&](const wire::Participant& participant) {
    return std::cmp_equal(participant.cluster, cluster);
  });
}

bool Agreement::has_companion(const ClusterState& state, int cluster) {
  return std::ranges::any_of(state.companions, [&](std::uint32_t one) { return std::cmp_equal(one, cluster); });
}

const ClusterState* Agreement::state_of(int cluster) const {
  const Peer& other = peer(cluster);
  return other.up && other.state ? &*other.state : nullptr;
}

ClusterState Agreement::state() const {
  ClusterState state;
  state.round = round_;
  state.attempt = attempt_;
  state.leader = static_cast<std::uint32_t>(leader());
  state.entered = entered_;
  state.finished = finished_ && !entry_after_;
  state.newcomer = newcomer_;
  state.complete = complete_;
  state.weight = newcomer_ ? 0 : entry_.weight;
  if (entry_.capture.number > 0) state.checkpoint = std::max(entry_.capture.number, last_checkpoint_ + 1);
  state.checkpoint_due = entry_.capture.due;
  for (const int cluster : missing_) state.missing.push_back(static_cast<std::uint32_t>(cluster));
  for (const int cluster : companions_) state.companions.push_back(static_cast<std::uint32_t>(cluster));
  return state;
}

}  // namespace ravnest::average
