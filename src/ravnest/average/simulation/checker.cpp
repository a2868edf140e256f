#include "ravnest/average/simulation/checker.h"

#include <algorithm>

namespace ravnest::average::simulation {

void Checker::starts(int cluster, int incarnation) {
  at(cluster) = {};
  at(cluster).incarnation = incarnation;
}

void Checker::ends(int cluster) { at(cluster).incarnation = 0; }

bool Checker::begins(int cluster, const Attempt& attempt, Ring::Part part) {
  Ring& ring = rings_[attempt.attempt];
  // A leader that has come back may use a number again that no one whom it reaches remembers.
  const auto forgotten = [&](const auto& part) {
    const bool author = part.first == static_cast<int>(attempt.attempt % clusters_.size());
    return !alive(part.first, part.second.incarnation) || (parted_ && !author);
  };
  if (std::ranges::all_of(ring.parts, forgotten)) ring = {attempt, {}, 0};
  if (ring.attempt != attempt) violated("attempt ", attempt.attempt, " is not the same at cluster ", cluster);
  const bool participates = std::ranges::any_of(attempt.participants, [&](const wire::Participant& participant) {
    return static_cast<int>(participant.cluster) == cluster;
  });
  if (!participates)
    violated("cluster ", cluster, " has no participant in attempt ", attempt.attempt, " and begins it");
  if (ring.parts.contains(cluster) && ring.parts[cluster].incarnation == at(cluster).incarnation) {
    violated("cluster ", cluster, " begins attempt ", attempt.attempt, " twice");
  }
  if (!part.newcomer && attempt.round != at(cluster).round + 1) {
    violated("cluster ", cluster, " begins round ", attempt.round, " out of turn");
  }
  part.incarnation = at(cluster).incarnation;
  part.base = at(cluster).base;
  ring.parts[cluster] = part;
  if (!violation_.empty() || ring.parts.size() != attempt.participants.size() || ring.result != 0) return false;
  check_bases(ring);
  ring.result = attempt.attempt;
  for (const wire::Participant& participant : attempt.participants) {
    if (participant.weight > 0)
      ring.result = mixed(ring.result, ring.parts[static_cast<int>(participant.cluster)].model);
  }
  return true;
}

// Only what was trained from the same weights may be averaged; what a newcomer has is not counted.
void Checker::check_bases(const Ring& ring) {
  const bool only_newcomers = std::ranges::all_of(ring.parts, [](const auto& part) { return part.second.newcomer; });
  if (only_newcomers) return;
  std::set<std::uint64_t> bases;
  double sum = 0;
  for (const wire::Participant& participant : ring.attempt.participants) {
    sum += participant.weight;
    if (participant.weight > 0) bases.insert(ring.parts.at(static_cast<int>(participant.cluster)).base);
  }
  if (bases.size() > 1) violated("attempt ", ring.attempt.attempt, " averages what was trained from different weights");
  if (!(sum > 0)) violated("nobody's weight counts in attempt ", ring.attempt.attempt);
}

// All have said whether they can make one, and want one, with what they entered.
void Checker::check_checkpoint(int cluster, const Ring& ring) {
  const auto wrong = [&](const auto&... how) {
    violated("cluster ", cluster, " holds attempt ", ring.attempt.attempt, " for checkpoint ", ring.attempt.checkpoint,
             how...);
  };
  bool all_can = true;
  bool wanted = false;
  for (const auto& [participant, part] : ring.parts) {
    if (part.changed) return;
    all_can = all_can && part.capture.number > 0;
    wanted = wanted || part.capture.due;
  }
  const std::uint64_t number = ring.attempt.checkpoint;
  if (number > 0 && !all_can) wrong(", which not all can make");
  if (number > 0 && ring.attempt.checkpoint_next) wrong(", and the next round is for it, too");
  if (number > 0 != (all_can && wanted)) wrong(wanted ? ", which is wanted" : ", which nobody wants");
  if (ring.attempt.checkpoint_next && (all_can || !wanted)) wrong(", and the next round is for one");
  if (number == 0) return;
  if (number <= at(cluster).checkpoint) wrong(" after checkpoint ", at(cluster).checkpoint);
  at(cluster).checkpoint = number;
}

void Checker::completes(int cluster, std::uint64_t attempt) { rings_[attempt].parts[cluster].complete = true; }

Model Checker::holds(int cluster, std::uint64_t attempt, const Agreement::Holds& holds) {
  const Ring& ring = rings_[attempt];
  Truth& truth = at(cluster);
  const auto wrong = [&](const auto&... how) {
    violated("cluster ", cluster, " holds round ", holds.round, " in attempt ", attempt, how...);
  };
  const auto own = ring.parts.find(cluster);
  if (own == ring.parts.end() || own->second.incarnation != truth.incarnation) {
    wrong(", which it did not begin");
    return 0;
  }
  if (!own->second.complete) wrong(" without its result");
  if (ring.attempt.round != holds.round || ring.attempt.last != holds.last) wrong(", which was another round");
  for (const wire::Participant& participant : ring.attempt.participants) {
    const auto part = ring.parts.find(static_cast<int>(participant.cluster));
    if (part == ring.parts.end() || !part->second.complete) wrong(" before cluster ", participant.cluster, " has it");
    if (static_cast<int>(participant.cluster) == cluster && participant.weight > 1 &&
        !truth.weights.insert(participant.weight).second) {
      wrong(" with a weight that has counted before");
    }
  }
  check_checkpoint(cluster, ring);
  for (std::size_t other = 0; other < clusters_.size() && !parted_; ++other) {
    const auto same = clusters_[other].held.find(holds.round);
    if (clusters_[other].incarnation == 0 || same == clusters_[other].held.end()) continue;
    if (same->second != attempt) wrong(", and cluster ", other, " in attempt ", same->second);
  }
  newcomers_ += own->second.newcomer ? 1 : 0;
  if (!truth.held.emplace(holds.round, attempt).second && !parted_) wrong(", and held that round before");
  truth.held[holds.round] = attempt;
  truth.round = holds.round;
  truth.base = attempt;
  truth.model = ring.result;
  return ring.result;
}

void Checker::all_is_quiet() {
  if (parted_) return;
  for (int cluster = 0; cluster < static_cast<int>(clusters_.size()); ++cluster) {
    if (at(cluster).incarnation == 0) continue;
    for (const auto& [round, attempt] : at(cluster).held) {
      for (const auto& [participant, part] : rings_[attempt].parts) {
        if (alive(participant, part.incarnation) && !at(participant).held.contains(round)) {
          violated("cluster ", cluster, " held round ", round, " and cluster ", participant,
                   " of the same attempt did not");
        }
      }
    }
    for (int other = 0; other < cluster; ++other) {
      if (at(other).incarnation == 0 || at(other).model == at(cluster).model) continue;
      violated("clusters ", other, " and ", cluster, " end with different models");
    }
  }
}

}  // namespace ravnest::average::simulation
