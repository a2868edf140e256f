#include "ravnest/plan/exhaustive.h"

#include <bit>
#include <limits>

namespace ravnest::plan {
namespace {

using Mask = unsigned;

constexpr double kImpossible = std::numeric_limits<double>::infinity();

class Search {
 public:
  Search(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use)
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

  std::optional<Groups> run(int most_clusters) {
    std::optional<Groups> best;
    double best_fitness = 0;
    for (int clusters = 1; clusters <= most_clusters; ++clusters) {
      std::optional<Groups> groups = fastest(clusters);
      if (!groups) continue;
      const double fitness = scorer_.pool(*groups);
      if (fitness > best_fitness) {
        best_fitness = fitness;
        best = std::move(groups);
      }
    }
    return best;
  }

 private:
  // The partition into exactly so many groups whose slowest is fastest.
  std::optional<Groups> fastest(int clusters) {
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
    const Mask used = use_ == Use::kAll ? everyone_ : fastest_of(slowest);
    if (slowest[used] == kImpossible) return std::nullopt;
    Groups groups;
    Mask left = used;
    for (int step = clusters - 2; step >= 0; --step) {
      const Mask part = chosen[step][left];
      groups.push_back(groups_[part]);
      left ^= part;
    }
    groups.push_back(groups_[left]);
    return groups;
  }

  // Of equals the one with the most nodes.
  Mask fastest_of(const std::vector<double>& slowest) const {
    Mask best = everyone_;
    for (Mask mask = everyone_; mask > 0; --mask) {
      const bool more = slowest[mask] == slowest[best] && std::popcount(mask) > std::popcount(best);
      if (slowest[mask] < slowest[best] || more) best = mask;
    }
    return best;
  }

  Scorer& scorer_;
  Use use_;
  Mask everyone_;
  std::vector<Group> groups_;
};

}  // namespace

std::optional<Groups> best_grouping(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use) {
  if (nodes.empty() || static_cast<int>(nodes.size()) > kExhaustiveLimit) return std::nullopt;
  return Search(scorer, nodes, smallest, use).run(static_cast<int>(nodes.size()) / smallest);
}

}  // namespace ravnest::plan
