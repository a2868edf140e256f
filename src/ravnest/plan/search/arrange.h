// Which machine of a cluster gets which stage, together with the cuts: exact for small clusters.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ravnest/plan/search/cut.h"

namespace ravnest::plan {

struct Arrangement {
  std::vector<int> order;  // of the machines, one per stage
  Cutting cutting;
};

// The order and the cuts whose costliest stage is cheapest, over all orders and all cuttings at these positions: kTime
// under each node's RAM, or kMemory, as `cut` means them. Nothing where no cutting is possible or, by time, fits; nor
// for kParams, whose shares follow from the order, or where it would take more than `most_steps`, of about 5 ns.
std::optional<Arrangement> arrange(const Segments& segments, std::span<const Machine> machines, Balance balance,
                                   const TrainingAssumptions& options, double most_steps = 5e6);

}  // namespace ravnest::plan
