// How an averager's stage goes through a round.
#include <algorithm>
#include <iterator>
#include <utility>

#include "ravnest/average/averager.h"

namespace ravnest::average {
namespace {

using wire::AveragingKind;

// What an averaging group's vectors are called on the wire: its number and one of these.
enum class Vector : std::uint32_t { kParameters = 0, kStatistics = 1, kMomentum = 2, kDifferences = 3, kKept = 4 };
constexpr std::uint32_t kVectors = 8;

std::uint32_t number_of(const AveragingPlace& averaging_group, Vector vector) {
  return averaging_group.number * kVectors + static_cast<std::uint32_t>(vector);
}

}  // namespace

void Averager::begin(Attempt attempt) {
  attempt_ = std::move(attempt);
  drop_exchange();
  began_ = clock_.now();
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.attempts;
  }
  exchange();
}

// When both are there: what the stage gives, and who takes part.
void Averager::exchange() {
  if (!given_ || !attempt_) return;
  exchange_.emplace(*attempt_, options_.cluster, options_.averaging_groups, parts_to_exchange(),
                    collective::RingDriver<float>(endpoint_, outbox_, pool_));
  if (exchange_->complete()) return completed(options_.stage, attempt_->attempt);
  auto early = std::exchange(early_, {});
  for (auto& [from, chunk] : early) handle(from, std::move(chunk));
  if (exchange_ && !exchange_->complete()) miss_the_gone();
}

// Newcomers do not know what the others held before. And where nobody has trained, momentum must not carry on.
std::vector<ExchangePart> Averager::parts_to_exchange() {
  const bool whole = !outer_ || attempt_->whole;
  lost_now_ = residuals_;
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
                       &lost_now_[s]});
    }
    parts.push_back({s, number_of(averaging_group, Vector::kStatistics), (*given_)[s].statistics, {}, nullptr});
    parts.push_back({s, number_of(averaging_group, Vector::kKept), (*given_)[s].kept, {}, nullptr});
    if (!momentum.empty())
      parts.push_back({s, number_of(averaging_group, Vector::kMomentum), momentum[s], {}, nullptr});
  }
  std::erase_if(parts, [](const ExchangePart& part) { return part.values.empty(); });
  return parts;
}

void Averager::begin_more() {
  if (Status begun = exchange_->begin(); !begun.ok()) fail(begun);
  if (exchange_->complete()) completed(options_.stage, attempt_->attempt);
}

void Averager::handle(const std::string& peer, wire::RingChunk chunk) {
  const std::uint64_t present = attempt_ ? attempt_->attempt : last_attempt_ + 1;
  if (chunk.attempt > present || (chunk.attempt == present && !exchange_)) {
    early_.emplace_back(peer, std::move(chunk));  // the root's word, or what this stage gives, is still on its way
    return;
  }
  if (chunk.attempt < present) {
    const std::lock_guard lock(mutex_);
    ++statistics_.ignored;
    return;
  }
  quiet_since_ = clock_.now();
  if (Status taken = exchange_->on_chunk(peer, std::move(chunk)); !taken.ok()) return fail(taken);
  if (exchange_->complete()) completed(options_.stage, attempt_->attempt);
}

// Root: that a stage has the result; others tell it.
void Averager::completed(int stage, std::uint64_t attempt) {
  if (!agreement_) {
    const wire::Averaging told{.kind = AveragingKind::kComplete, .round = attempt_->round, .attempt = attempt};
    if (Status sent = outbox_.send(options_.nodes.front(), told); !sent.ok()) fail(sent);
    return;
  }
  complete_.insert(stage);
  if (complete_.size() == options_.nodes.size()) carry_out(agreement_->complete(attempt));
}

// Those without whom the attempt can't be completed here. One is told of at a time: another attempt may follow at once.
void Averager::miss_the_gone() {
  const auto& neighbours = exchange_->neighbours();
  const auto found = std::ranges::find_if(neighbours, [&](const auto& each) { return gone_.contains(each.second); });
  if (found == neighbours.end()) return;
  const int cluster = found->first;
  if (agreement_) return carry_out(agreement_->missing(cluster));
  const wire::Averaging told{.kind = AveragingKind::kMissing,
                             .round = attempt_->round,
                             .attempt = attempt_->attempt,
                             .missing = {static_cast<std::uint32_t>(cluster)}};
  if (Status sent = outbox_.send(options_.nodes.front(), told); !sent.ok()) fail(sent);
}

void Averager::commit(bool last) {
  if (!attempt_ || !exchange_ || !exchange_->complete())
    return fail(internal("a round is said to hold whose result is not here"));
  StageValues mean = conclude();
  RoundResult result{std::move(*given_), std::move(mean)};
  std::erase_if(early_, [&](const auto& early) { return early.second.attempt <= attempt_->attempt; });
  last_attempt_ = attempt_->attempt;
  owes_ = false;
  given_.reset();
  drop_exchange();
  attempt_.reset();
  {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    ++held_;
    over_ = over_ || last;
    ++statistics_.rounds;
    statistics_.exchanging_s += seconds_between(began_, clock_.now());
  }
  endpoint_.interrupt();
}

void Averager::drop_exchange() {
  if (!exchange_) return;
  {
    const std::lock_guard lock(mutex_);
    statistics_.bytes += exchange_->bytes_sent();
    statistics_.ignored += exchange_->ignored();
  }
  exchange_.reset();
}

// What this stage's weights become.
StageValues Averager::conclude() {
  StageValues mean(given_->size());
  OuterOptimizer::AveragingGroups parameters(mean.size());
  OuterOptimizer::AveragingGroups momentum(mean.size());
  for (ExchangePart& part : exchange_->take_parts()) {
    switch (static_cast<Vector>(part.number % kVectors)) {
      case Vector::kDifferences:
      case Vector::kParameters: parameters[part.averaging_group] = std::move(part.values); break;
      case Vector::kStatistics: mean[part.averaging_group].statistics = std::move(part.values); break;
      case Vector::kKept: mean[part.averaging_group].kept = std::move(part.values); break;
      case Vector::kMomentum: momentum[part.averaging_group] = std::move(part.values); break;
    }
  }
  if (outer_ && attempt_->whole) {
    for (codec::ErrorFeedback& residual : residuals_) residual.reset();
    const bool carried =
        std::ranges::any_of(momentum, [](const auto& averaging_group) { return !averaging_group.empty(); });
    parameters =
        outer_->take_mean(std::move(parameters), carried ? std::move(momentum) : OuterOptimizer::AveragingGroups());
  } else if (outer_) {
    residuals_ = std::move(lost_now_);
    parameters = outer_->take_mean_difference(parameters);
  }
  for (std::size_t s = 0; s < mean.size(); ++s) mean[s].parameters = std::move(parameters[s]);
  return mean;
}

}  // namespace ravnest::average
