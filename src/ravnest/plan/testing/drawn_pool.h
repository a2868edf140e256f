// Models and pools of all kinds, drawn from a seed, and whether the planner makes the best of them.
#pragma once

#include <cstdint>
#include <string>

#include "ravnest/plan/search/form.h"

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

struct Comparison {
  std::string violation;  // empty where the plan is sound and reaches the wanted share of the best
  double best = 0;        // samples/s, by BruteForce; 0 where nothing fits
  double planned = 0;     // as the plan promises
  double plain = 0;       // with as many passes in flight as stages, as BruteForce counts
  int spares = 0;
};

Comparison compared_with_brute_force(const DrawnPool& drawn, double wanted_share = 0.98);

}  // namespace ravnest::plan
