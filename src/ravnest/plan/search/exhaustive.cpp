#include "ravnest/plan/search/exhaustive.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

namespace ravnest::plan {
namespace {

using Mask = unsigned;

constexpr double kImpossible = std::numeric_limits<double>::infinity();
// Per number of clusters, of nodes of which some are left out: scores are made with little care, so that the best may
// be another one.
constexpr std::size_t kBestSets = 4;

class GroupingSearch {
 public:
  GroupingSearch(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use)
      : scorer_(scorer), use_(use), everyone_((Mask{1} << nodes.size()) - 1), groups_(everyone_ + 1) {
    for (Mask mask = 1; mask <= everyone_; ++mask) {
      if (std::popcount(mask) < smallest) continue;
      std::vector<int> members;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if ((mask >> i & 1) != 0) members.push_back(nodes[i]);
      }
      groups_[mask] = scorer_.group(std::move(members));
    }
  }

  std::vector<Groups> run(int most_clusters) {
    std::multimap<double, Groups, std::greater<>> by_fitness;
    for (int clusters = 1; clusters <= most_clusters; ++clusters) {
      for (Groups& groups : fastest(clusters)) {
        const double fitness = scorer_.pool(groups);
        if (fitness > 0) by_fitness.emplace(fitness, std::move(groups));
      }
    }
    std::vector<Groups> result;
    for (auto& [fitness, groups] : by_fitness) result.push_back(std::move(groups));
    return result;
  }

 private:
  // The partitions into exactly so many groups whose slowest is fastest, of all nodes or of each of the best sets.
  std::vector<Groups> fastest(int clusters) {
    std::vector<double> alone(everyone_ + 1, kImpossible);
    for (Mask mask = 1; mask <= everyone_; ++mask) {
      if (groups_[mask].scores != nullptr && scorer_.score(groups_[mask], clusters).fits())
        alone[mask] = scorer_.period_s(groups_[mask], clusters);
    }
    std::vector<std::vector<Mask>> chosen;
    std::vector<double> slowest = alone;
    for (int more = 1; more < clusters; ++more) {
      std::vector<double> next(everyone_ + 1, kImpossible);
      chosen.emplace_back(everyone_ + 1, 0);
      for (Mask mask = 1; mask <= everyone_; ++mask) {
        // The group of the first node, so that each partition comes up once.
        const Mask first = mask & (~mask + 1);
        for (Mask part = mask; part != 0; part = (part - 1) & mask) {
          if ((part & first) == 0 || part == mask) continue;
          const double worst = std::max(alone[part], slowest[mask ^ part]);
          if (worst < next[mask]) {
            next[mask] = worst;
            chosen.back()[mask] = part;
          }
        }
      }
      slowest = std::move(next);
    }
    std::vector<Groups> result;
    for (const Mask used : use_ == Use::kAll ? std::vector{everyone_} : best_sets(slowest)) {
      if (slowest[used] == kImpossible) continue;
      Groups& groups = result.emplace_back();
      Mask left = used;
      for (int step = clusters - 2; step >= 0; --step) {
        const Mask part = chosen[step][left];
        groups.push_back(groups_[part]);
        left ^= part;
      }
      groups.push_back(groups_[left]);
    }
    return result;
  }

  // Of equals those with the most nodes.
  std::vector<Mask> best_sets(const std::vector<double>& slowest) const {
    std::vector<Mask> sets(everyone_);
    std::iota(sets.begin(), sets.end(), Mask{1});
    const auto best = sets.begin() + static_cast<std::ptrdiff_t>(std::min(kBestSets, sets.size()));
    std::partial_sort(sets.begin(), best, sets.end(), [&](Mask a, Mask b) {
      return slowest[a] != slowest[b] ? slowest[a] < slowest[b] : std::popcount(a) > std::popcount(b);
    });
    sets.erase(best, sets.end());
    return sets;
  }

  Scorer& scorer_;
  Use use_;
  Mask everyone_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<Groups> best_groupings(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use) {
  if (nodes.empty() || static_cast<int>(nodes.size()) > kExhaustiveLimit) return {};
  return GroupingSearch(scorer, nodes, smallest, use).run(static_cast<int>(nodes.size()) / smallest);
}

}  // namespace ravnest::plan
