// Which group of clusters an agreement belongs to, who leads it, and whose round it is in.
#include <algorithm>
#include <utility>

#include "ravnest/average/agreement.h"

namespace ravnest::average {

// Companions that went on elsewhere, and one's own group where there is a better one.
bool Agreement::give_up() {
  if (companions_.empty()) return false;
  // They can no longer be led or followed from here: waiting for them would be for ever.
  const auto left = std::erase_if(companions_, [&](int companion) { return has_left(companion); });
  if (left > 0) return true;
  // The leader lives but follows someone else, who can't be reached from here: nothing will come of it.
  if (const int leader_now = leader(); patience_over_ && leader_now != self_ && !leads(leader_now)) {
    return companions_.erase(leader_now) > 0;
  }
  for (const ClusterState* other : better_groups()) {
    if (!leads(static_cast<int>(other->leader))) continue;
    go_out(other->round);
    return true;
  }
  return false;
}

// By the states of their members.
std::vector<const ClusterState*> Agreement::better_groups() const {
  // A group counts as its best-informed member: one of them may have held a round that this one is about to learn of.
  Precedence own = precedence(state());
  for (const int companion : companions_) {
    const ClusterState* other = state_of(companion);
    if (other != nullptr && !is_foreign(companion)) own = std::max(own, precedence(*other));
  }
  std::vector<const ClusterState*> better;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (is_foreign(cluster) && precedence(*state_of(cluster)) > own) better.push_back(state_of(cluster));
  }
  return better;
}

bool Agreement::has_left(int companion) const {
  const ClusterState* other = state_of(companion);
  if (other == nullptr) return false;
  // Both need a state that was sent after the attempt: an older one says nothing about it.
  if (other->companions.empty() && other->attempt >= attempt_) return true;
  return !other->companions.empty() && !has_companion(*other, self_) && other->attempt > attempt_;
}

bool Agreement::is_foreign(int cluster) const {
  const ClusterState* other = state_of(cluster);
  if (other == nullptr || other->companions.empty() || std::cmp_equal(other->leader, leader())) return false;
  // Two that both take themselves to be the leader are rivals though they may list each other as companions.
  const bool rivals = leader() == self_ && std::cmp_equal(other->leader, cluster);
  return rivals || !companions_.contains(cluster) || !has_companion(*other, self_);
}

// Who has no companions takes the number from its leader, and as a leader from its followers. Another number than its
// own means that they have been through rounds without it.
bool Agreement::adopt_round() {
  if (!companions_.empty()) return false;
  std::uint64_t adopted = round_;
  if (const int leader_now = leader(); leader_now != self_) {
    if (const ClusterState* other = state_of(leader_now)) adopted = other->round;
  } else {
    std::uint64_t of_group = 0;
    for (int cluster = 0; cluster < clusters_; ++cluster) {
      const ClusterState* other = state_of(cluster);
      if (other == nullptr || std::cmp_not_equal(other->leader, self_)) continue;
      std::uint64_t& greatest = other->companions.empty() ? adopted : of_group;
      greatest = std::max(greatest, other->round);
    }
    // Those who have held rounds together know better than any number of newcomers.
    if (of_group > 0) adopted = of_group;
  }
  if (adopted == round_) return false;
  // Its weights are not what the others' rounds made of theirs: it comes in as a newcomer.
  if (!newcomer_) go_out(adopted);
  round_ = adopted;
  called_ = false;
  return true;
}

// It can be followed, and takes itself to be the leader.
bool Agreement::leads(int cluster) const {
  const ClusterState* other = state_of(cluster);
  return cluster == self_ || (other != nullptr && may_be_followed(cluster) && std::cmp_equal(other->leader, cluster));
}

Agreement::Precedence Agreement::precedence(const ClusterState& state) {
  return {!state.newcomer, state.companions.size(), state.round, state.attempt};
}

int Agreement::leader() const {
  if (!companions_.empty()) {
    const int author = static_cast<int>(attempt_ % static_cast<std::uint64_t>(clusters_));
    return companions_.contains(author) ? author : *companions_.begin();
  }
  // Who changed at every turn to the better of two groups would hold up both.
  if (joining_ != self_ && leads(joining_) && !state_of(joining_)->companions.empty()) return joining_;
  const ClusterState* best = nullptr;
  bool groups = false;
  int lowest = self_;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (cluster == self_ || may_be_followed(cluster)) lowest = std::min(lowest, cluster);
    const ClusterState* other = state_of(cluster);
    if (other == nullptr || other->companions.empty()) continue;
    groups = true;
    if (!leads(static_cast<int>(other->leader))) continue;
    if (best == nullptr || precedence(*best) < precedence(*other)) best = other;
  }
  if (best != nullptr) return static_cast<int>(best->leader);
  return groups && patience_over_ ? self_ : lowest;
}

std::vector<int> Agreement::members() const {
  std::vector<int> members;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    const ClusterState* other = state_of(cluster);
    if (cluster == self_ || (other != nullptr && std::cmp_equal(other->leader, leader()))) members.push_back(cluster);
  }
  return members;
}

std::vector<int> Agreement::waiting_for() const {
  std::vector<int> waiting;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (cluster == self_) continue;
    const ClusterState* other = state_of(cluster);
    const bool participates = open_ && has_participant(*open_, cluster);
    const bool complete = other != nullptr && other->complete && other->attempt == attempt_;
    const bool follows = other != nullptr && std::cmp_equal(other->leader, leader());
    const bool ready = other != nullptr && (other->entered || other->finished || other->newcomer);
    const bool silent = other == nullptr && attempt_ == 0 && peer(cluster).up;
    if (open_ ? participates && !complete : silent || (follows && !ready)) waiting.push_back(cluster);
  }
  return waiting;
}

}  // namespace ravnest::average
