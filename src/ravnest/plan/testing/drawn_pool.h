// Models and pools of all kinds, drawn from a seed, and whether the planner makes the best of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ravnest/plan/search/form.h"
#include "ravnest/plan/testing/brute_force.h"

namespace ravnest::plan {

struct DrawnPool {
  std::string kind;  // for people
  ModelCosts costs;
  Pool pool;
  FormOptions options;
};

struct DrawnSizes {
  int least = 2;
  int most = 7;
  // Larger pools have nodes of three kinds: the orders of more would keep BruteForce busy for hours.
  int most_unlike = 6;
};

// The same by every compiler and standard library.
DrawnPool drawn_pool(std::uint64_t seed, const DrawnSizes& sizes = {});

inline constexpr double kWantedShare = 0.98;

struct Comparison {
  std::string violation;  // empty where the plan is sound and reaches the wanted share of the best
  PlanSpeed best = {};    // by BruteForce
  PlanSpeed planned = {};
  int spares = 0;

  bool possible() const { return best.searched > 0; }
  double searched_share() const { return planned.searched / best.searched; }
  double share() const { return std::max(searched_share(), planned.promised / best.promised); }
};

// Like is held against like. Whether nodes are left out is decided by what is promised with the wider windows, and that
// may be for a plan which is worse by the figure that is searched for: it reaches the share by either of the two.
Comparison compared_with_brute_force(const DrawnPool& drawn, double wanted_share = kWantedShare);

}  // namespace ravnest::plan
