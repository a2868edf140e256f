// The best grouping there is, for pools small enough to look at all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/plan/score.h"

namespace ravnest::plan {

inline constexpr int kExhaustiveLimit = 12;

enum class Use : std::uint8_t { kAll, kTheBest };

// The fittest partition of `nodes` (at most kExhaustiveLimit), or of some of them, into groups of at least `smallest`;
// nothing where no partition fits. Looks at every subset once and at every way of putting subsets together.
std::optional<Groups> best_grouping(Scorer& scorer, const std::vector<int>& nodes, int smallest, Use use = Use::kAll);

}  // namespace ravnest::plan
