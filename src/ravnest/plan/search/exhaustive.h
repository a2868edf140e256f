// The best grouping there is, for pools small enough to look at all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/plan/search/score.h"

namespace ravnest::plan {

inline constexpr int kExhaustiveLimit = 12;

enum class Use : std::uint8_t { kAll, kTheBest };

// For each number of clusters the partition of `nodes` (at most kExhaustiveLimit), or those of some of them, into
// groups of at least `smallest` whose slowest is fastest; the fittest first, none that does not fit. Looks at every
// subset once and at every way of putting subsets together.
std::vector<Groups> best_groupings(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use = Use::kAll);

}  // namespace ravnest::plan
