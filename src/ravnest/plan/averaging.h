// What averaging between clusters costs under a plan, by the figures of predict.h.
#pragma once

#include <optional>
#include <vector>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// What one round asks of a node's link.
struct RoundCost {
  int node = 0;
  double bytes = 0;  // each way, over all rings that it serves
  double link_s = 0;

  bool operator==(const RoundCost&) const = default;
};

// Per ring its slowest member: all of a node's rings move at once over one link, and a ring is not done before its
// slowest member is. Empty for a plan of one cluster.
std::vector<RoundCost> slowest_of_rings(const Plan& plan);

// The pool's samples per second if clusters averaged every so many updates; 0: never. All else is as planned.
double samples_per_s_averaging_every(const Plan& plan, int updates);

// What averaging may take from the pool's samples per second without mattering.
inline constexpr double kSmallLoss = 0.01;
// The fewest updates between two rounds at which averaging takes less than kSmallLoss. Nothing where no number does.
std::optional<int> fewest_updates_that_matter_little(const Plan& plan);

}  // namespace ravnest::plan
