// How an averager's stage goes through a round.
#include <algorithm>
#include <iterator>
#include <utility>

#include "ravnest/average/averager.h"

namespace ravnest::average {
namespace {

// What an averaging group's vectors are called on the wire: its number and one of these.
enum class Vector : std::uint32_t {
  kParameters = 0,
  kStatistics = 1,
  kMomentum = 2,
  kDifferences = 3,
  kOptimizerState = 4
};
constexpr std::uint32_t kVectors = 8;

std::uint32_t number_of(const AveragingPlace& averaging_group, Vector vector) {
  return averaging_group.number * kVectors + static_cast<std::uint32_t>(vector);
}

}  // namespace

void Averager::begin(Attempt attempt) {
  drop_attempt();
  open_.emplace(Open{.attempt = std::move(attempt), .began = clock_.now()});
  {
    const MutexLock lock(mutex_);
    ++statistics_.attempts;
  }
  exchange();
}

// When both are there: what the stage gives, and who takes part.
void Averager::exchange() {
  if (!given_ || !open_) return;
  open_->exchange.emplace(open_->attempt, options_.cluster, options_.averaging_groups, parts_to_exchange(),
                          collective::RingDriver<float>(endpoint_, outbox_, pool_));
  if (open_->exchange->complete()) return completed(options_.stage);
  // Taken out first: what is still of a later attempt goes back in, and a chunk may complete the attempt and end it.
  auto early = std::exchange(early_, {});
  for (auto& [from, chunk] : early) handle(from, std::move(chunk));
  if (is_exchanging()) miss_the_gone();
}

// Newcomers do not know what the others held before. And where nobody has trained, momentum must not carry on.
std::vector<ExchangePart> Averager::parts_to_exchange() {
  const bool whole = !outer_ || open_->attempt.whole;
  // A copy: an attempt that is given up half-way must leave what the last round lost as it was.
  open_->residuals = residuals_;
  OuterOptimizer::AveragingGroups parameters;
  for (const GroupValues& averaging_group : *given_) parameters.push_back(averaging_group.parameters);
  if (!whole) parameters = outer_->difference(std::move(parameters));
  const OuterOptimizer::AveragingGroups momentum =
      whole && outer_ ? outer_->momentum() : OuterOptimizer::AveragingGroups();
  std::vector<ExchangePart> parts;
  for (std::size_t s = 0; s < given_->size(); ++s) {
    const AveragingPlace& averaging_group = options_.averaging_groups[s];
    if (whole) {
      parts.push_back({s, number_of(averaging_group, Vector::kParameters), std::move(parameters[s]), {}, nullptr});
    } else {
      parts.push_back({s, number_of(averaging_group, Vector::kDifferences), std::move(parameters[s]), options_.codec,
                       &open_->residuals[s]});
    }
    parts.push_back({s, number_of(averaging_group, Vector::kStatistics), (*given_)[s].statistics, {}, nullptr});
    parts.push_back(
        {s, number_of(averaging_group, Vector::kOptimizerState), (*given_)[s].optimizer_state, {}, nullptr});
    if (!momentum.empty())
      parts.push_back({s, number_of(averaging_group, Vector::kMomentum), momentum[s], {}, nullptr});
  }
  std::erase_if(parts, [](const ExchangePart& part) { return part.values.empty(); });
  return parts;
}

void Averager::begin_more() {
  if (Status begun = open_->exchange->begin(); !begun.ok()) fail(begun);
  if (open_->exchange->complete()) completed(options_.stage);
}

void Averager::handle(const std::string& peer, wire::RingChunk chunk) {
  // Neighbours may hear of an attempt before this stage does, and send at once. What is older is of an attempt that
  // some member has not given up yet.
  const std::uint64_t present = open_ ? open_->attempt.attempt : last_attempt_ + 1;
  if (chunk.attempt > present || (chunk.attempt == present && !(open_ && open_->exchange))) {
    early_.emplace_back(peer, std::move(chunk));  // the root's word, or what this stage gives, is still on its way
    return;
  }
  if (chunk.attempt < present) {
    const MutexLock lock(mutex_);
    ++statistics_.ignored;
    return;
  }
  // A long exchange is not a silence, though the agreement does not change during it.
  quiet_since_ = clock_.now();
  if (Status taken = open_->exchange->on_chunk(peer, std::move(chunk)); !taken.ok()) return fail(taken);
  if (open_->exchange->complete()) completed(options_.stage);
}

// Root: that a stage has the result; others tell it.
void Averager::completed(int stage) {
  const std::uint64_t attempt = open_->attempt.attempt;
  if (!agreement_) return tell_root(wire::AttemptComplete{.attempt = attempt});
  // The cluster has the result when all its stages have: then a commit can not find one without.
  open_->complete.insert(stage);
  if (open_->complete.size() == options_.nodes.size()) carry_out(agreement_->complete(attempt));
}

// Those without whom the attempt can't be completed here. One is told of at a time: another attempt may follow at once.
void Averager::miss_the_gone() {
  const auto& neighbours = open_->exchange->neighbours();
  const auto found = std::ranges::find_if(neighbours, [&](const auto& each) { return gone_.contains(each.second); });
  if (found == neighbours.end()) return;
  const int cluster = found->first;
  if (agreement_) return carry_out(agreement_->missing(cluster));
  tell_root(wire::ClusterMissing{.attempt = open_->attempt.attempt, .cluster = static_cast<std::uint32_t>(cluster)});
}

void Averager::hold(std::uint64_t attempt) {
  if (!open_ || open_->attempt.attempt != attempt || !open_->exchange || !open_->exchange->complete())
    return fail(internal("a round is said to hold whose result is not here"));
  // From here on the round can't fail: all that follows is this stage's own.
  StageValues mean = conclude();
  RoundResult result{std::move(*given_), std::move(mean), std::nullopt};
  if (open_->attempt.checkpoint > 0) result.carried = carried();
  std::erase_if(early_, [&](const auto& early) { return early.second.attempt <= attempt; });
  last_attempt_ = attempt;
  given_.reset();
  const Attempt attempt_held = open_->attempt;
  const TimePoint began = open_->began;
  drop_attempt();
  {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
    own_.holds(attempt_held);
    ++statistics_.rounds;
    statistics_.exchanging_s += seconds_between(began, clock_.now());
  }
  endpoint_.interrupt();
}

void Averager::drop_attempt() {
  if (open_ && open_->exchange) {
    const MutexLock lock(mutex_);
    statistics_.bytes += open_->exchange->bytes_sent();
    statistics_.ignored += open_->exchange->ignored();
  }
  open_.reset();
}

CarriedState Averager::carried() const {
  CarriedState carried;
  if (!outer_) return carried;
  carried.holds = true;
  carried.momentum = outer_->momentum();
  for (const codec::ErrorFeedback& residual : residuals_)
    carried.residuals.emplace_back(residual.residual().begin(), residual.residual().end());
  return carried;
}

// What this stage's weights become.
StageValues Averager::conclude() {
  StageValues mean(given_->size());
  OuterOptimizer::AveragingGroups parameters(mean.size());
  OuterOptimizer::AveragingGroups momentum(mean.size());
  for (ExchangePart& part : open_->exchange->take_parts()) {
    switch (static_cast<Vector>(part.number % kVectors)) {
      case Vector::kDifferences:
      case Vector::kParameters: parameters[part.averaging_group] = std::move(part.values); break;
      case Vector::kStatistics: mean[part.averaging_group].statistics = std::move(part.values); break;
      case Vector::kOptimizerState: mean[part.averaging_group].optimizer_state = std::move(part.values); break;
      case Vector::kMomentum: momentum[part.averaging_group] = std::move(part.values); break;
    }
  }
  if (outer_ && open_->attempt.whole) {
    // Whole weights went uncompressed: nothing is left to make up for.
    for (codec::ErrorFeedback& residual : residuals_) residual.reset();
    const bool carried =
        std::ranges::any_of(momentum, [](const auto& averaging_group) { return !averaging_group.empty(); });
    parameters =
        outer_->take_mean(std::move(parameters), carried ? std::move(momentum) : OuterOptimizer::AveragingGroups());
  } else if (outer_) {
    residuals_ = std::move(open_->residuals);
    parameters = outer_->take_mean_difference(parameters);
  }
  for (std::size_t s = 0; s < mean.size(); ++s) mean[s].parameters = std::move(parameters[s]);
  return mean;
}

}  // namespace ravnest::average
