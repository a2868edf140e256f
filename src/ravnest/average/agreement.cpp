#include "ravnest/average/agreement.h"

#include <algorithm>
#include <utility>

namespace ravnest::average {

using wire::Averaging;
using wire::AveragingKind;

Agreement::Agreement(int self, int clusters)
    : self_(self), clusters_(clusters), joining_(self), peers_(static_cast<std::size_t>(clusters)) {}

// -- what the owner says

Agreement::Actions Agreement::enter(double weight) {
  entered_ = true;
  weight_ = weight;
  return settle();
}

Agreement::Actions Agreement::finish(double weight) {
  finished_ = true;
  if (entered_) {
    weight_after_ = weight;
  } else {
    entered_ = true;
    weight_ = weight;
  }
  return settle();
}

Agreement::Actions Agreement::resume() {
  if (finished_ && !weight_after_) entered_ = false;
  finished_ = false;
  weight_after_.reset();
  return settle();
}

Agreement::Actions Agreement::complete(std::uint64_t attempt) {
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
  peer(cluster) = {};
  peer(cluster).seen = seen;
  peer(cluster).up = up;
  barred_.erase(cluster);
  patience_over_ = false;
  ++changes_;
  if (!up) {
    companions_.erase(cluster);
  } else if (expected_.erase(cluster) > 0) {
    companions_.insert(cluster);
  }
  return settle();
}

Agreement::Actions Agreement::on_message(int from, const Averaging& message) {
  if (!is_other(from) || !peer(from).up || !fits(message)) {
    ++ignored_;
    return {};
  }
  if (message.kind == AveragingKind::kState) {
    greatest_ = std::max(greatest_, message.attempt);
    peer(from).sent_out = false;
    const Averaging* before = state_of(from);
    if (before == nullptr || before->leader != message.leader || before->participants != message.participants) {
      patience_over_ = false;
      ++changes_;
    }
    peer(from).state = message;
    // It followed when the attempt was begun, and may have changed its mind before it heard of it.
    if (companions_.contains(from) && std::cmp_not_equal(message.leader, self_)) own_ = false;
    return settle();
  }
  bool taken = from == leader();
  switch (message.kind) {
    case AveragingKind::kGo: taken = taken && on_go(message); break;
    case AveragingKind::kCommit: taken = taken && on_commit(message); break;
    case AveragingKind::kOut: taken = taken && on_out(from, message); break;
    case AveragingKind::kCall:
      taken = taken && message.round == round_;
      called_ = called_ || taken;
      break;
    default: taken = false;
  }
  if (!taken) ++ignored_;
  return settle();
}

bool Agreement::fits(const Averaging& message) const {
  if (std::cmp_greater_equal(message.leader, clusters_)) return false;
  return std::ranges::all_of(message.participants, [&](const wire::Participant& participant) {
    return std::cmp_less(participant.cluster, clusters_);
  });
}

bool Agreement::on_go(const Averaging& go) {
  const bool adopts = newcomer_ && companions_.empty();
  if ((go.round != round_ && !adopts) || go.attempt <= attempt_ || !has_participant(go, self_)) return false;
  round_ = go.round;
  begin(go);
  own_ = false;
  return true;
}

bool Agreement::on_commit(const Averaging& commit) {
  const bool known = commit.attempt == attempt_ && commit.round + 1 == round_ && !open_;
  if (known) return true;
  if (!complete_ || commit.attempt != attempt_ || commit.round != round_) return false;
  hold();
  return true;
}

// Who is out already is so for a reason that came later.
bool Agreement::on_out(int from, const Averaging& out) {
  if (companions_.empty() || out.attempt != attempt_) return false;
  go_out(out.round);
  if (out.last) peer(from).turned_us_away = patience_over_ = true;
  return true;
}

// -- what follows from it

Agreement::Actions Agreement::settle() {
  while (learn() || give_up() || adopt_round() || decide()) tell();
  tell();
  return std::exchange(actions_, {});
}

// Only a commit leads from an attempt to the next round, unless one is out in between and has no companions.
bool Agreement::learn() {
  if (!complete_) return false;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    const Averaging* other = state_of(cluster);
    if (other == nullptr || other->participants.empty()) continue;
    if (other->attempt != attempt_ || other->round != round_ + 1) continue;
    hold();
    return true;
  }
  return false;
}

// Companions that went on elsewhere, and one's own group where there is a better one.
bool Agreement::give_up() {
  if (companions_.empty()) return false;
  const auto left = std::erase_if(companions_, [&](int companion) { return has_left(companion); });
  if (left > 0) return true;
  if (const int leader_now = leader(); patience_over_ && leader_now != self_ && !leads(leader_now)) {
    return companions_.erase(leader_now) > 0;
  }
  for (const Averaging* other : better_groups()) {
    if (!leads(static_cast<int>(other->leader))) continue;
    go_out(other->round);
    return true;
  }
  return false;
}

// By the stands of their members.
std::vector<const Averaging*> Agreement::better_groups() const {
  Rank own = rank(state());
  for (const int companion : companions_) {
    const Averaging* other = state_of(companion);
    if (other != nullptr && !is_foreign(companion)) own = std::max(own, rank(*other));
  }
  std::vector<const Averaging*> better;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (is_foreign(cluster) && rank(*state_of(cluster)) > own) better.push_back(state_of(cluster));
  }
  return better;
}

bool Agreement::has_left(int companion) const {
  const Averaging* other = state_of(companion);
  if (other == nullptr) return false;
  if (other->participants.empty() && other->attempt >= attempt_) return true;
  return !other->participants.empty() && !has_participant(*other, self_) && other->attempt > attempt_;
}

bool Agreement::is_foreign(int cluster) const {
  const Averaging* other = state_of(cluster);
  if (other == nullptr || other->participants.empty() || std::cmp_equal(other->leader, leader())) return false;
  const bool rivals = leader() == self_ && std::cmp_equal(other->leader, cluster);
  return rivals || !companions_.contains(cluster) || !has_participant(*other, self_);
}

// Who has no companions takes the number from its leader, and as a leader from its followers. Another number than its
// own means that they have been through rounds without it.
bool Agreement::adopt_round() {
  if (!companions_.empty()) return false;
  std::uint64_t adopted = round_;
  if (const int leader_now = leader(); leader_now != self_) {
    if (const Averaging* other = state_of(leader_now)) adopted = other->round;
  } else {
    std::uint64_t of_group = 0;
    for (int cluster = 0; cluster < clusters_; ++cluster) {
      const Averaging* other = state_of(cluster);
      if (other == nullptr || std::cmp_not_equal(other->leader, self_)) continue;
      std::uint64_t& greatest = other->participants.empty() ? adopted : of_group;
      greatest = std::max(greatest, other->round);
    }
    if (of_group > 0) adopted = of_group;
  }
  if (adopted == round_) return false;
  if (!newcomer_) go_out(adopted);
  round_ = adopted;
  called_ = false;
  return true;
}

void Agreement::tell() {
  joining_ = companions_.empty() ? leader() : self_;
  const Averaging now = state();
  const bool changed = now != told_;
  told_ = now;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (!is_other(cluster) || !peer(cluster).up || (peer(cluster).told && !changed)) continue;
    peer(cluster).told = true;
    actions_.emplace_back(Send{cluster, now});
  }
}

void Agreement::begin(const Averaging& go) {
  attempt_ = go.attempt;
  greatest_ = std::max(greatest_, attempt_);
  open_ = Attempt{go.round, go.attempt, go.participants, go.last, go.whole};
  complete_ = false;
  missing_.clear();
  companions_.clear();
  expected_.clear();
  for (const wire::Participant& participant : go.participants) {
    const int cluster = static_cast<int>(participant.cluster);
    (cluster == self_ || peer(cluster).up ? companions_ : expected_).insert(cluster);
  }
  actions_.emplace_back(Begin{*open_});
}

void Agreement::hold() {
  last_held_ = open_->last;
  actions_.emplace_back(Holds{round_, last_held_});
  ++round_;
  entered_ = weight_after_.has_value();
  weight_ = weight_after_.value_or(0);
  weight_after_.reset();
  newcomer_ = called_ = complete_ = own_ = false;
  open_.reset();
  missing_.clear();
  barred_.clear();
}

void Agreement::go_out(std::uint64_t their_round) {
  newcomer_ = newcomer_ || std::max(round_, their_round) > 1;
  entered_ = finished_;
  weight_ = weight_after_.value_or(weight_);
  weight_after_.reset();
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

bool Agreement::has_participant(const Averaging& message, int cluster) {
  return std::ranges::any_of(message.participants, [&](const wire::Participant& participant) {
    return std::cmp_equal(participant.cluster, cluster);
  });
}

const Averaging* Agreement::state_of(int cluster) const {
  const Peer& other = peer(cluster);
  return other.up && other.state ? &*other.state : nullptr;
}

// It can be followed, and takes itself to be the leader.
bool Agreement::leads(int cluster) const {
  const Averaging* other = state_of(cluster);
  return cluster == self_ || (other != nullptr && may_be_followed(cluster) && std::cmp_equal(other->leader, cluster));
}

Averaging Agreement::state() const {
  Averaging state;
  state.round = round_;
  state.attempt = attempt_;
  state.leader = static_cast<std::uint32_t>(leader());
  state.entered = entered_;
  state.finished = finished_ && !weight_after_;
  state.newcomer = newcomer_;
  state.complete = complete_;
  state.weight = newcomer_ ? 0 : weight_;
  for (const int cluster : missing_) state.missing.push_back(static_cast<std::uint32_t>(cluster));
  for (const int cluster : companions_) state.participants.push_back({static_cast<std::uint32_t>(cluster), 0});
  return state;
}

Agreement::Rank Agreement::rank(const Averaging& state) {
  return {!state.newcomer, state.participants.size(), state.round, state.attempt};
}

int Agreement::leader() const {
  if (!companions_.empty()) {
    const int author = static_cast<int>(attempt_ % static_cast<std::uint64_t>(clusters_));
    return companions_.contains(author) ? author : *companions_.begin();
  }
  // Who changed at every turn to the better of two groups would hold up both.
  if (joining_ != self_ && leads(joining_) && !state_of(joining_)->participants.empty()) return joining_;
  const Averaging* best = nullptr;
  bool groups = false;
  int lowest = self_;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (cluster == self_ || may_be_followed(cluster)) lowest = std::min(lowest, cluster);
    const Averaging* other = state_of(cluster);
    if (other == nullptr || other->participants.empty()) continue;
    groups = true;
    if (!leads(static_cast<int>(other->leader))) continue;
    if (best == nullptr || rank(*best) < rank(*other)) best = other;
  }
  if (best != nullptr) return static_cast<int>(best->leader);
  return groups && patience_over_ ? self_ : lowest;
}

std::vector<int> Agreement::members() const {
  std::vector<int> members;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    const Averaging* other = state_of(cluster);
    if (cluster == self_ || (other != nullptr && std::cmp_equal(other->leader, leader()))) members.push_back(cluster);
  }
  return members;
}

std::vector<int> Agreement::waiting_for() const {
  std::vector<int> waiting;
  for (int cluster = 0; cluster < clusters_; ++cluster) {
    if (cluster == self_) continue;
    const Averaging* other = state_of(cluster);
    const bool participates = open_ && std::ranges::find(open_->participants, static_cast<std::uint32_t>(cluster),
                                                         &wire::Participant::cluster) != open_->participants.end();
    const bool complete = other != nullptr && other->complete && other->attempt == attempt_;
    const bool follows = other != nullptr && std::cmp_equal(other->leader, leader());
    const bool ready = other != nullptr && (other->entered || other->finished || other->newcomer);
    const bool silent = other == nullptr && attempt_ == 0 && peer(cluster).up;
    if (open_ ? participates && !complete : silent || (follows && !ready)) waiting.push_back(cluster);
  }
  return waiting;
}

}  // namespace ravnest::average
