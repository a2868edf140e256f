// What an agreement does where it is the leader.
#include <algorithm>
#include <utility>

#include "ravnest/average/agreement.h"
#include "ravnest/base/check.h"

namespace ravnest::average {

bool Agreement::decide() {
  if (leader() != self_) return false;
  if (patience_over_ && go_on_without_the_others()) return true;
  // Who follows this leader has told it all that it holds. Deciding before all do might undo what another leader
  // committed with one of them.
  if (!may_lead() || !std::ranges::all_of(companions_, [&](int companion) { return follows(companion); })) return false;
  // Only an attempt that this leader began itself can be committed here: of another's it does not know who was told.
  // Where a participant is lost, or goes, the attempt can't be completed; it is over when the next begins.
  if (open_ && own_) {
    if (part_from_missing()) return true;
    own_ = std::ranges::all_of(open_->participants,
                               [&](const wire::Participant& participant) { return is_companion(participant); });
    if (own_) return commit_if_complete();
  }
  const std::vector<int> all = members();
  return bring_to_one_round(all) || begin_if_ready(all);
}

bool Agreement::follows(int companion) const {
  const ClusterState* other = state_of(companion);
  return companion == self_ || (other != nullptr && std::cmp_equal(other->leader, self_));
}

// But not without a leader that claims this one for its own attempt: it sees that there is a later one, and comes.
bool Agreement::go_on_without_the_others() {
  // Those who were never up here do not hold this group up either.
  expected_.clear();
  const auto comes = [&](int companion) {
    const ClusterState* other = state_of(companion);
    return other != nullptr && std::cmp_equal(other->leader, companion) && has_companion(*other, self_) &&
           precedence(*other) < precedence(state());
  };
  return std::erase_if(companions_, [&](int companion) { return !follows(companion) && !comes(companion); }) > 0;
}

// Where there are others whom it can't follow now it may be able to soon; and without companions of its own it may know
// less than they do.
bool Agreement::may_lead() const {
  if (!expected_.empty()) return false;
  if (!companions_.empty()) return patience_over_ || better_groups().empty();
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (!is_other(cluster)) continue;
    // At the start of a run: they are probably still starting, and have to begin with the same round.
    if (!peer(cluster).seen && !unseen_given_up_ && attempt_ == 0) return false;
    if (!peer(cluster).up) continue;
    const ClusterState* other = state_of(cluster);
    if (other == nullptr || (std::cmp_not_equal(other->leader, self_) && !patience_over_)) return false;
  }
  return true;
}

bool Agreement::commit_if_complete() {
  for (const wire::Participant& participant : open_->participants) {
    const int cluster = static_cast<int>(participant.cluster);
    RAVNEST_CHECK(is_companion(participant) && follows(cluster), "cluster ", self_, " commits attempt ", attempt_,
                  " without cluster ", cluster);
    const ClusterState* other = state_of(cluster);  // it follows: so it is up, and its state is known
    if (!(cluster == self_ ? complete_ : other->complete && other->attempt == attempt_)) return false;
  }
  for (const wire::Participant& participant : open_->participants) {
    const int to = static_cast<int>(participant.cluster);
    if (to != self_) send(to, wire::CommitAttempt{.round = round_, .attempt = attempt_});
  }
  // Should this process end between two of the sends: whoever gets one goes on, and the others learn from its state.
  hold();
  return true;
}

bool Agreement::names_missing(int cluster, int other) const {
  if (cluster == self_) return missing_.contains(other);
  const ClusterState* named_by = state_of(cluster);
  return named_by != nullptr && named_by->attempt == attempt_ &&
         std::ranges::any_of(named_by->missing, [&](std::uint32_t named) { return std::cmp_equal(named, other); });
}

// Never the leader; rather a newcomer; rather the one that was named; of two that name each other the higher.
int Agreement::who_goes(int by, int named) const {
  const auto newcomer = [&](int cluster) { return cluster != self_ && state_of(cluster)->newcomer; };
  if (named == self_ || by == self_) return named == self_ ? by : named;
  if (newcomer(by) != newcomer(named)) return newcomer(by) ? by : named;
  return names_missing(named, by) ? std::max(by, named) : named;
}

// Of two of which one does not reach the other one has to go, and is barred until the round has held. Where those who
// stay need no round any more it goes on alone.
bool Agreement::part_from_missing() {
  const std::size_t before = companions_.size();
  for (const wire::Participant& participant : open_->participants) {
    for (const wire::Participant& named : open_->participants) {
      const int by = static_cast<int>(participant.cluster);
      const int other = static_cast<int>(named.cluster);
      if (by == other || !companions_.contains(by) || !companions_.contains(other) || !names_missing(by, other))
        continue;
      // Both are still companions: of three that miss each other in a circle, two go and not three.
      const int goes = who_goes(by, other);
      RAVNEST_CHECK(goes != self_, "cluster ", self_, " leads, and sends itself out");
      companions_.erase(goes);
      barred_.insert(goes);
      const bool none_left = std::ranges::all_of(
          companions_, [&](int cluster) { return cluster == self_ ? finished_ : state_of(cluster)->finished; });
      send(goes, wire::SendOut{.round = round_, .attempt = attempt_, .alone = none_left});
    }
  }
  return companions_.size() < before;
}

// Nothing is begun before all are at the same round. Those that are behind and have its result, or no companions, come
// by themselves. Others are out, and so is who has companions and is not one of this leader's: it may have held other
// rounds under the same numbers.
bool Agreement::bring_to_one_round(const std::vector<int>& followers) {
  if (companions_.empty()) return false;
  for (const int cluster : followers) {
    if (cluster == self_ || state_of(cluster)->companions.empty()) continue;
    const ClusterState& other = *state_of(cluster);
    // Before the first round everyone's weights are the same, and no number means anything yet.
    const bool stranger = !companions_.contains(cluster) && !other.newcomer && std::max(round_, other.round) > 1;
    if (!stranger && other.round > round_) {
      go_out(other.round);
      return true;
    }
    // One round ahead of a companion: it has not heard of the commit yet, and will learn of it from our state.
    const bool comes = other.round == round_ || (other.complete && other.attempt == attempt_);
    if ((comes && !stranger) || peer(cluster).sent_out) continue;
    peer(cluster).sent_out = true;
    send(cluster, wire::SendOut{.round = round_, .attempt = other.attempt, .alone = false});
  }
  return false;
}

bool Agreement::begin_if_ready(const std::vector<int>& followers) {
  const ClusterState own = state();
  std::vector<int> participants;
  bool all_ready = true;  // but newcomers, which nobody waits for
  bool wanted = false;
  bool all_finished = true;
  bool newcomer_ready = false;
  for (const int cluster : followers) {
    const ClusterState& one = cluster == self_ ? own : *state_of(cluster);
    // It is on its way to this round, or out of its own: what it says of being ready is of another one.
    if (one.round != round_ || peer(cluster).sent_out) return false;
    if (barred_.contains(cluster)) continue;
    const bool ready = one.entered || one.finished;
    all_ready = all_ready && (ready || one.newcomer);
    if (!ready) continue;
    participants.push_back(cluster);
    wanted = wanted || one.entered || one.newcomer;
    newcomer_ready = newcomer_ready || one.newcomer;
    all_finished = all_finished && one.finished;
  }
  // When nobody trains any more one round is left, so that all end with the same weights; after it, none.
  wanted = wanted || (all_finished && !last_held_);
  if (!all_ready && newcomer_ready) call(followers);
  // Nothing is held up by those whom others can't reach when there is nothing to hold: they may come in again.
  if (!wanted && !barred_.empty()) {
    barred_.clear();
    return true;
  }
  if (!all_ready || !wanted || !std::ranges::binary_search(participants, self_)) return false;
  propose(participants);
  return true;
}

void Agreement::call(const std::vector<int>& followers) {
  for (const int cluster : followers) {
    if (cluster == self_) {
      called_ = called_ || !(entered_ || finished_);
      continue;
    }
    const ClusterState& other = *state_of(cluster);
    if (other.entered || other.finished || std::exchange(peer(cluster).called, round_) == round_) continue;
    send(cluster, wire::CallRound{.round = round_});
  }
}

void Agreement::propose(const std::vector<int>& participants) {
  Attempt attempt{.round = round_, .attempt = next_attempt(), .last = true};
  double sum = 0;
  bool only_newcomers = true;
  bool checkpoint_due = false;
  bool all_can = true;
  const ClusterState own = state();
  for (const int cluster : participants) {
    const ClusterState& one = cluster == self_ ? own : *state_of(cluster);
    attempt.participants.push_back({static_cast<std::uint32_t>(cluster), one.newcomer ? 0 : one.weight});
    attempt.last = attempt.last && one.finished;
    attempt.whole = attempt.whole || one.newcomer;
    only_newcomers = only_newcomers && one.newcomer;
    checkpoint_due = checkpoint_due || one.checkpoint_due;
    all_can = all_can && one.checkpoint > 0;
    attempt.checkpoint = std::max(attempt.checkpoint, one.checkpoint);
    sum += attempt.participants.back().weight;
  }
  // A mean needs some weight. Where nobody has trained all that have the common weights count alike; newcomers only
  // where there is nobody else.
  for (wire::Participant& participant : attempt.participants) {
    const int cluster = static_cast<int>(participant.cluster);
    const bool newcomer = cluster == self_ ? newcomer_ : state_of(cluster)->newcomer;
    if (!(sum > 0) && (only_newcomers || !newcomer)) participant.weight = 1;
  }
  attempt.whole = attempt.whole || !(sum > 0);
  if (!checkpoint_due || !all_can) attempt.checkpoint = 0;
  // Some may never be able to. They do not make every round be followed by another.
  attempt.checkpoint_next = checkpoint_due && !all_can && !for_checkpoint_;
  RAVNEST_CHECK(attempt.attempt > greatest_, "attempt ", attempt.attempt, " is begun after ", greatest_);
  for (const int cluster : participants) {
    if (cluster != self_) send(cluster, attempt);
  }
  begin(attempt);
  own_ = true;
}

std::uint64_t Agreement::next_attempt() const {
  const auto count = static_cast<std::uint64_t>(clusters_);
  const auto self = static_cast<std::uint64_t>(self_);
  // The least number above all that were seen which leaves this cluster's remainder.
  const std::uint64_t next = greatest_ + 1;
  return next + (self + count - next % count) % count;
}

}  // namespace ravnest::average
