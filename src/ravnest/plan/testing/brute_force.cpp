#include "ravnest/plan/testing/brute_force.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ravnest/plan/predict/predict.h"

namespace ravnest::plan {

BruteForce::BruteForce(const ModelCosts& costs, std::vector<Machine> machines, Balance balance,
                       const FormOptions& options)
    : segments_(costs, cut_positions(costs, 1024)),
      machines_(std::move(machines)),
      balance_(balance),
      training_(options.training),
      smallest_(options.min_cluster_size),
      may_spare_(balance == Balance::kTime && !options.use_all),
      batch_(costs.batch) {}

PlanSpeed BruteForce::best() {
  clusters_.clear();
  best_ = {};
  by_mask_.assign(std::size_t{1} << machines_.size(), nullptr);
  partition(0);
  return best_;
}

// The periods of a set of nodes in its best order, per number of clusters; empty where it cannot hold the model.
const std::vector<BruteForce::Periods>& BruteForce::periods(unsigned mask) {
  if (by_mask_[mask] == nullptr) by_mask_[mask] = &periods_of(mask);
  return *by_mask_[mask];
}

// Equal machines are not told apart.
const std::vector<BruteForce::Periods>& BruteForce::periods_of(unsigned mask) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(machines_.size()); ++i) {
    if ((mask >> i & 1) != 0)
      order.push_back(
          static_cast<int>(std::find(machines_.begin(), machines_.end(), machines_[i]) - machines_.begin()));
  }
  if (balance_ == Balance::kTime) std::sort(order.begin(), order.end());
  const auto known = known_.find(order);
  if (known != known_.end()) return known->second;
  const std::vector<int> key = order;
  std::vector<Periods> best;
  consider(order, best);
  if (balance_ == Balance::kTime || best.empty()) {
    std::sort(order.begin(), order.end());
    do {
      consider(order, best);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return known_[key] = best;
}

void BruteForce::consider(const std::vector<int>& order, std::vector<Periods>& best) const {
  std::vector<Machine> machines;
  for (const int node : order) machines.push_back(machines_[node]);
  const std::size_t others = (machines_.size() - order.size()) / static_cast<std::size_t>(smallest_);
  for (std::size_t k = 1; k <= 1 + others; ++k) {
    if (k == 1 && order.size() < machines_.size() && !may_spare_) continue;
    TrainingAssumptions training = training_;
    training.clusters = static_cast<int>(k);
    for (const Balance balance : {balance_, Balance::kTime}) {
      const std::optional<Cutting> cutting = cut(segments_, machines, balance, training);
      if (!cutting || !cutting->fits()) continue;
      constexpr double kNever = std::numeric_limits<double>::infinity();
      if (best.empty()) best.assign(machines_.size() + 1, {kNever, kNever});
      const double searched_s = period_s(cutting->loads, machines, training);
      if (searched_s < best[k].searched_s) {
        const int window = window_for(cutting->loads, machines, training);
        best[k] = {searched_s, predict_cluster(cutting->loads, machines, batch_, training, window).period_s};
      }
      break;
    }
  }
}

void BruteForce::partition(unsigned placed) {
  const unsigned everyone = (1U << machines_.size()) - 1;
  if (placed == everyone) {
    if (clusters_.empty()) return;
    Periods slowest;
    for (const unsigned mask : clusters_) {
      const Periods& own = periods(mask)[clusters_.size()];
      slowest.searched_s = std::max(slowest.searched_s, own.searched_s);
      slowest.promised_s = std::max(slowest.promised_s, own.promised_s);
    }
    const double samples = static_cast<double>(batch_) * static_cast<double>(clusters_.size());
    if (samples / slowest.searched_s > best_.searched)
      best_ = {samples / slowest.searched_s, samples / slowest.promised_s};
    return;
  }
  unsigned first = 1;
  while ((placed & first) != 0) first <<= 1;
  const unsigned left = everyone & ~placed;
  if (may_spare_) partition(placed | first);  // without it
  for (unsigned part = left; part != 0; part = (part - 1) & left) {
    if ((part & first) == 0 || std::popcount(part) < smallest_ || periods(part).empty()) continue;
    clusters_.push_back(part);
    partition(placed | part);
    clusters_.pop_back();
  }
}

}  // namespace ravnest::plan
