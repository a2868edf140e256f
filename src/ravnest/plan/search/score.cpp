#include "ravnest/plan/search/score.h"

#include <algorithm>

namespace ravnest::plan {
namespace {

constexpr int kFinePlaces = 1024;
constexpr int kMiddlePlaces = 96;
constexpr int kCoarsePlaces = 32;
// So many that all of them can be tried where every order is.
constexpr int kExactPlaces = 100;
// Fewer places must leave a stage some choice.
constexpr int kPlacesPerStage = 4;
// In larger pools other orders are tried at the end only.
constexpr int kReorderUpTo = 12;
// Pools that can be looked at more closely, and those that cannot be looked at closely at all.
constexpr int kSmallPool = 8;
constexpr int kLargePool = 64;
// How many clusters are reckoned with, per kind of ClusterScores.
constexpr std::array<int, 4> kReckonedClusters = {1, 2, 3, 6};
// Per hop and per update of staleness: decides between plans that are equal otherwise.
constexpr double kTieBreak = 1e-6;
// Of the mean over the slowest: of two slowest clusters one has to be improved first, and that must count for
// something.
constexpr double kTowardsFaster = 1e-4;

}  // namespace

std::size_t Scorer::Hash::operator()(const std::vector<int>& key) const {
  std::uint64_t hash = key.size();
  for (const int each : key) {
    hash = (hash ^ static_cast<std::uint64_t>(each)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

CutViews::CutViews(const ModelCosts& costs)
    : batch(costs.batch),
      fine(costs, cut_positions(costs, kFinePlaces)),
      middle(costs, cut_positions(costs, kMiddlePlaces)),
      coarse(costs, cut_positions(costs, kCoarsePlaces)) {}

const Segments& CutViews::exact() const { return fine.count() <= kExactPlaces ? fine : middle; }

Scorer::Scorer(const CutViews& views, std::vector<Machine> machines, Balance balance,
               const TrainingAssumptions& training, std::optional<Effort> effort)
    : views_(views),
      machines_(std::move(machines)),
      balance_(balance),
      training_(training),
      effort_(effort.value_or(nodes() <= kSmallPool     ? Effort::kSome
                              : nodes() <= kReorderUpTo ? Effort::kLittle
                                                        : Effort::kLeast)) {
  for (const Machine& machine : machines_) {
    const auto known = std::find(class_machines_.begin(), class_machines_.end(), machine);
    classes_.push_back(static_cast<int>(known - class_machines_.begin()));
    if (known == class_machines_.end()) class_machines_.push_back(machine);
  }
}

// Every place matters where there is time to look at all of them.
Ordering::Places Scorer::places_for(std::size_t stages) const {
  const Segments& finest = nodes() <= kLargePool ? views_.fine : views_.middle;
  const bool exact = effort_ == Effort::kExact;
  if (exact && &views_.exact() == &views_.fine) return {views_.fine, views_.fine, views_.fine};
  for (const Segments* each : {&views_.coarse, &views_.middle}) {
    if (exact && each == &views_.coarse) continue;
    if (static_cast<int>(stages) * kPlacesPerStage <= std::min(each->count(), each->most_stages()))
      return {views_.fine, finest, *each};
  }
  const bool enough = static_cast<int>(stages) <= finest.most_stages();
  return enough ? Ordering::Places{views_.fine, finest, finest}
                : Ordering::Places{views_.fine, views_.fine, views_.fine};
}

TrainingAssumptions Scorer::training_with(int clusters) const {
  TrainingAssumptions training = training_;
  training.clusters = clusters;
  return training;
}

std::vector<Machine> Scorer::machines_of(const Group& group) const {
  std::vector<Machine> machines;
  for (const int member : group.members) machines.push_back(machines_[member]);
  return machines;
}

Group Scorer::group(std::vector<int> members) {
  std::vector<int> key;
  key.reserve(members.size());
  for (const int member : members) key.push_back(classes_[member]);
  const auto [entry, is_new] = scores_.try_emplace(std::move(key));
  if (is_new) entry->second = std::make_unique<ClusterScores>();
  return {std::move(members), entry->second.get()};
}

const ClusterScore& Scorer::score(const Group& group, int clusters) {
  std::size_t kind = std::min<std::size_t>(clusters, kReckonedClusters.size()) - 1;
  if (effort_ < Effort::kSome && kind > 0) kind = kReckonedClusters.size() - 1;
  std::unique_ptr<ClusterScore>& known = (*group.scores)[kind];
  if (known == nullptr) {
    const std::vector<Machine> machines = machines_of(group);
    const TrainingAssumptions training = training_with(kReckonedClusters[kind]);
    const Ordering::Places places = places_for(machines.size());
    steps_ += 2.5 * static_cast<double>(machines.size()) * places.coarse.count() * places.coarse.count();
    const Ordering ordering(places, machines, balance_, training, effort_);
    ClusterScore score = ordering.in_given_order();
    const bool other_orders = effort_ > Effort::kLeast && balance_ == Balance::kTime;
    if (score.possible && (!score.fits() || other_orders)) score = ordering.best(score);
    known = std::make_unique<ClusterScore>(std::move(score));
  }
  return *known;
}

ClusterScore Scorer::refine(const Group& group, int clusters) {
  const std::vector<Machine> machines = machines_of(group);
  const TrainingAssumptions training = training_with(clusters);
  const Effort effort = nodes() <= kLargePool ? std::max(effort_, Effort::kThorough) : Effort::kLittle;
  return Ordering(places_for(machines.size()), machines, balance_, training, effort).refined(score(group, clusters));
}

double Scorer::period_s(const Group& group, int clusters) {
  const ClusterScore& own = score(group, clusters);
  return plan::period_s(own.cutting.loads, own.machines, training_with(clusters));
}

double Scorer::pool(const Groups& groups) {
  const auto clusters = static_cast<int>(groups.size());
  double missing = 0;
  double slowest_s = 0;
  double sum_s = 0;
  int hops = 0;
  int staleness = 0;
  for (const Group& group : groups) {
    const ClusterScore& own = score(group, clusters);
    const int stages = static_cast<int>(group.members.size());
    if (!own.possible) {
      missing += 10 + stages - most_stages();
    } else if (!own.fits()) {
      missing += own.cutting.fullest - 1;
    } else if (missing == 0) {
      const double own_s = period_s(group, clusters);
      slowest_s = std::max(slowest_s, own_s);
      sum_s += own_s;
      hops += stages - 1;
      staleness = std::max(staleness, stages - 1);
    }
  }
  if (missing > 0) return -missing;
  const double samples = static_cast<double>(views_.batch) * clusters;
  return samples / slowest_s / (1 + kTieBreak * (hops + staleness) + kTowardsFaster * sum_s / clusters / slowest_s);
}

}  // namespace ravnest::plan
