#include "ravnest/plan/search/layouts.h"

#include <algorithm>
#include <cstdint>

namespace ravnest::plan {
namespace {

Layout chunks(const std::vector<int>& order, int clusters) {
  Layout groups(clusters);
  const auto count = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < count; ++i) groups[i * clusters / count].push_back(order[i]);
  return groups;
}

// From the strongest to the weakest, each to the group that has least so far; groups that are too small last.
template <class Strength>
Layout dealt(const std::vector<int>& order, int clusters, int smallest, Strength strength) {
  Layout groups(clusters);
  std::vector<double> sums(clusters, 0);
  int left = static_cast<int>(order.size());
  int still_needed = clusters * smallest;
  for (const int node : order) {
    const bool only_small = left-- <= still_needed;
    int best = -1;
    for (int g = 0; g < clusters; ++g) {
      if (only_small && static_cast<int>(groups[g].size()) >= smallest) continue;
      if (best < 0 || sums[g] < sums[best]) best = g;
    }
    if (static_cast<int>(groups[best].size()) < smallest) --still_needed;
    groups[best].push_back(node);
    sums[best] += strength(node);
  }
  return groups;
}

}  // namespace

std::vector<Layout> layouts(const std::vector<int>& nodes, const std::vector<Machine>& machines, int clusters,
                            int smallest) {
  const auto ram = [&](int node) { return machines[node].ram_bytes; };
  const auto speed = [&](int node) { return machines[node].flops_per_s; };
  const auto by = [&](auto strength) {
    std::vector<int> order = nodes;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strength(a) > strength(b); });
    return order;
  };
  return {chunks(nodes, clusters), chunks(by(ram), clusters), chunks(by(speed), clusters),
          dealt(by(ram), clusters, smallest, ram), dealt(by(speed), clusters, smallest, speed)};
}

}  // namespace ravnest::plan
