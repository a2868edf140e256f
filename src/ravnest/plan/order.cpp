#include "ravnest/plan/order.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ravnest/plan/arrange.h"
#include "ravnest/plan/predict.h"

namespace ravnest::plan {
namespace {

constexpr int kClimbingRounds = 4;
constexpr std::size_t kAllOrdersUpTo = 6;
// The given order is kept unless another promises this much more.
constexpr double kWorthReordering = 1.01;

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

Ordering::Ordering(const Segments& fine, const Segments& coarse, const std::vector<Machine>& machines, Balance balance,
                   const TrainingOptions& training)
    : fine_(fine), coarse_(coarse), machines_(machines), balance_(balance), training_(training) {}

ClusterScore Ordering::in_given_order() const { return in_order(coarse_, given_order(machines_.size()), balance_); }

// Shares that do not fit their nodes are given up for a cutting that does; so is a coarse view.
ClusterScore Ordering::in_order(const Segments& segments, Order order, Balance balance) const {
  ClusterScore made;
  for (const int index : order) made.machines.push_back(machines_[index]);
  made.order = std::move(order);
  std::optional<Cutting> cutting = cut(segments, made.machines, balance, training_);
  if (cutting && !cutting->fits() && balance == Balance::kParams)
    cutting = cut(segments, made.machines, Balance::kTime, training_);
  if (cutting && !cutting->fits() && &segments != &fine_)
    cutting = cut(fine_, made.machines, Balance::kTime, training_);
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
void Ordering::climb(ClusterScore& best) const {
  const auto stages = static_cast<int>(machines_.size());
  bool improved = true;
  for (int round = 0; improved && round < kClimbingRounds; ++round) {
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
          ClusterScore made = in_order(coarse_, std::move(order), other_balance());
          if (!better(made, best)) continue;
          best = std::move(made);
          improved = true;
        }
      }
    }
  }
}

ClusterScore Ordering::best(const ClusterScore& given, bool thorough) const {
  if (all_equal(machines_)) return given;
  ClusterScore best = given;
  const auto consider = [&](ClusterScore made) {
    if (better(made, best)) best = std::move(made);
  };
  double least_s = 0;  // that the slowest stage takes, in whatever order
  std::optional<Arrangement> found = arrange(coarse_, machines_, other_balance(), training_);
  if (!found) found = arrange(fine_, machines_, Balance::kMemory, training_);
  if (found) {
    for (std::size_t s = 0; s < machines_.size(); ++s)
      least_s = std::max(least_s, period_s({&found->cutting.loads[s], 1}, {&machines_[found->order[s]], 1}, training_));
    consider(in_order(coarse_, found->order, other_balance()));
  }
  const bool settled = found && (balance_ == Balance::kMemory || (best.fits() && period(best) <= least_s));
  if (!settled && thorough && machines_.size() <= kAllOrdersUpTo) {
    Order order = given_order(machines_.size());
    do {
      consider(in_order(coarse_, order, other_balance()));
    } while (std::next_permutation(order.begin(), order.end()));
  } else if (!settled) {
    climb(best);
    ClusterScore other = in_order(coarse_, order_by_ram(machines_), other_balance());
    climb(other);
    consider(std::move(other));
  }
  return given.fits() && !better(best, given, kWorthReordering) ? given : best;
}

ClusterScore Ordering::refined(const ClusterScore& known) const {
  ClusterScore best = in_order(fine_, given_order(machines_.size()), balance_);
  if (!best.possible || (best.fits() && balance_ != Balance::kTime)) return best;
  // Orders found with fewer places may still be the best with all of them.
  const double margin = best.fits() ? kWorthReordering : 1;
  for (const ClusterScore& found : {this->best(best, true), known}) {
    for (const ClusterScore& made : std::array{found, in_order(fine_, found.order, other_balance())}) {
      if (better(made, best, best.order == made.order ? 1 : margin)) best = made;
    }
  }
  return best;
}

}  // namespace ravnest::plan
