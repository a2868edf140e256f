#include "ravnest/plan/search/order.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ravnest/plan/predict/predict.h"
#include "ravnest/plan/search/arrange.h"

namespace ravnest::plan {
namespace {

// How much looking is worth while: for each of thousands of candidates, and for those that were chosen.
constexpr double kSteps = 1e5;
constexpr double kSearchSteps = 6e4;
constexpr double kThoroughSteps = 5e6;
constexpr double kThoroughSearchSteps = 2e6;
constexpr double kExactSearchSteps = 2e7;
constexpr int kMostTries = 400;
// The given order is kept unless another promises this much more.
constexpr double kWorthReordering = 1.01;
// No other order makes up for so much missing memory.
constexpr double kHopeless = 3;
// Nearer than this to a bound that no order can pass, looking for another is not worth the time.
constexpr double kNearEnough = 1.005;

std::vector<int> given_order(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Early stages hold more passes and versions: those with the most RAM may have to be first.
std::vector<int> order_by_ram(const std::vector<Machine>& machines) {
  std::vector<int> order = given_order(machines.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return machines[a].ram_bytes > machines[b].ram_bytes; });
  return order;
}

bool all_equal(const std::vector<Machine>& machines) {
  return std::all_of(machines.begin(), machines.end(), [&](const Machine& each) { return each == machines.front(); });
}

}  // namespace

Ordering::Ordering(const Places& places, const std::vector<Machine>& machines, Balance balance,
                   const TrainingAssumptions& training, Effort effort)
    : fine_(places.fine),
      middle_(places.middle),
      coarse_(places.coarse),
      machines_(machines),
      balance_(balance),
      training_(training),
      effort_(effort) {}

ClusterScore Ordering::in_given_order() const { return tried(given_order(machines_.size()), balance_); }

ClusterScore Ordering::tried(Order order, Balance balance) const {
  return in_order(coarse_, std::move(order), balance, effort_ < Effort::kExact);
}

ClusterScore Ordering::chosen(Order order, Balance balance) const {
  return in_order(middle_, std::move(order), balance, false);
}

// Shares that do not fit their nodes are given up for a cutting that does; so is a coarse view.
ClusterScore Ordering::in_order(const Segments& segments, Order order, Balance balance, bool quick) const {
  ClusterScore made;
  for (const int index : order) made.machines.push_back(machines_[index]);
  made.order = std::move(order);
  std::optional<Cutting> cutting =
      balance == Balance::kParams ? cut(fine_, made.machines, balance, training_) : std::nullopt;
  const Balance otherwise = other_balance();
  if (!cutting || !cutting->fits()) cutting = cut(segments, made.machines, otherwise, training_, quick);
  if (cutting && !cutting->fits() && cutting->fullest < kHopeless && &segments != &middle_)
    cutting = cut(middle_, made.machines, otherwise, training_, quick);
  made.possible = cutting.has_value();
  if (cutting) made.cutting = std::move(*cutting);
  return made;
}

bool Ordering::better(const ClusterScore& a, const ClusterScore& b, double margin) const {
  if (a.fits() != b.fits()) return a.fits();
  if (!a.fits()) return a.cutting.fullest < b.cutting.fullest;
  return period(a) * margin < period(b);
}

double Ordering::period(const ClusterScore& score) const {
  return period_s(score.cutting.loads, score.machines, training_);
}

// By moving or swapping machines for as long as that helps.
void Ordering::climb(ClusterScore& best, int tries) const {
  const auto stages = static_cast<int>(machines_.size());
  for (bool improved = true; improved;) {
    improved = false;
    for (int from = 0; from < stages; ++from) {
      for (int to = 0; to < stages; ++to) {
        Order swapped = best.order;
        std::swap(swapped[from], swapped[to]);
        Order moved = best.order;
        moved.erase(moved.begin() + from);
        moved.insert(moved.begin() + to, best.order[from]);
        for (Order& order : std::array{swapped, moved}) {
          if (order == best.order) continue;
          if (--tries < 0) return;
          ClusterScore made = tried(std::move(order), other_balance());
          if (!better(made, best)) continue;
          best = std::move(made);
          improved = true;
        }
      }
    }
  }
}

// No order can do better: its slowest stage is no faster than that of the arrangement, and a batch goes through all
// machines, computing at best as fast as the fastest of them, over a chain of links that joins them all.
double Ordering::least_period_s(const std::vector<StageLoad>& fastest_slowest, const std::vector<int>& order) const {
  double slowest_s = 0;
  double work = 0;
  double latency_s = 0;
  double least_latency_s = machines_.front().latency_s;
  double fastest = 0;
  for (std::size_t s = 0; s < order.size(); ++s) {
    const Machine& machine = machines_[order[s]];
    slowest_s = std::max(slowest_s, period_s({&fastest_slowest[s], 1}, {&machine, 1}, training_));
    work += fastest_slowest[s].work;
    latency_s += machine.latency_s;
    least_latency_s = std::min(least_latency_s, machine.latency_s);
    fastest = std::max(fastest, machine.flops_per_s);
  }
  const double round_trip_s = work / fastest + 2 * (latency_s - least_latency_s);
  return std::max(slowest_s, round_trip_s / static_cast<double>(order.size()));
}

ClusterScore Ordering::best(const ClusterScore& given) const {
  if (all_equal(machines_)) return given;
  ClusterScore best = given;
  const auto consider = [&](ClusterScore made) {
    if (better(made, best)) best = std::move(made);
  };
  if (!given.fits()) consider(tried(order_by_ram(machines_), other_balance()));
  if (effort_ == Effort::kLeast || (!best.fits() && best.cutting.fullest > kHopeless)) return best;
  const double most_steps = effort_ >= Effort::kThorough || !best.fits() ? kThoroughSteps : kSteps;
  std::optional<Arrangement> found = arrange(coarse_, machines_, other_balance(), training_, most_steps);
  if (!found && !best.fits()) found = arrange(middle_, machines_, Balance::kMemory, training_, most_steps);
  if (found) consider(tried(found->order, other_balance()));
  const bool settled =
      found && (balance_ == Balance::kMemory ||
                (best.fits() && period(best) <= kNearEnough * least_period_s(found->cutting.loads, found->order)));
  if (!settled && effort_ != Effort::kLittle) search(best);
  return given.fits() && !better(best, given, kWorthReordering) ? given : best;
}

void Ordering::search(ClusterScore& best) const {
  // Up to three tables per try, each of all segments for all stages.
  const double steps_per_try = 1.5 * coarse_.count() * coarse_.count() * static_cast<double>(machines_.size());
  const double steps = effort_ == Effort::kExact      ? kExactSearchSteps
                       : effort_ == Effort::kThorough ? kThoroughSearchSteps
                                                      : kSearchSteps;
  const int tries = static_cast<int>(std::min<double>(kMostTries, steps / steps_per_try));
  const double affordable = effort_ == Effort::kExact ? steps / steps_per_try : tries;
  double orders = 1;
  for (std::size_t s = 2; s <= machines_.size(); ++s) orders *= static_cast<double>(s);
  if (orders <= affordable) {
    Order order = given_order(machines_.size());
    do {
      ClusterScore made = tried(order, other_balance());
      if (better(made, best)) best = std::move(made);
    } while (std::next_permutation(order.begin(), order.end()));
    return;
  }
  climb(best, tries);
  ClusterScore other = tried(order_by_ram(machines_), other_balance());
  climb(other, tries);
  if (better(other, best)) best = std::move(other);
}

ClusterScore Ordering::refined(const ClusterScore& known) const {
  ClusterScore best = chosen(given_order(machines_.size()), balance_);
  if (!best.possible || (best.fits() && balance_ != Balance::kTime)) return best;
  // Orders found with fewer places may still be the best with more.
  const double margin = best.fits() ? kWorthReordering : 1;
  for (const ClusterScore& found : {this->best(best), known}) {
    for (const ClusterScore& made : std::array{found, chosen(found.order, other_balance())}) {
      if (better(made, best, best.order == made.order ? 1 : margin)) best = made;
    }
  }
  return best;
}

}  // namespace ravnest::plan
