// A plan in words and numbers, for people.
#pragma once

#include <string>

#include "ravnest/plan/plan.h"

namespace ravnest::plan {

// A table per cluster (node, role, stage, parameters, memory used and free, times, bytes out per batch, link rates),
// the samples per second that are predicted, and what limits them. Where clusters average: what a round costs the
// slowest member of each ring, and from which reduce_factor on averaging does not matter.
std::string explain(const Plan& plan);

// What limits a cluster, and what would help: "node_2 computes for 3.10 ms per batch; ...".
std::string limit_sentence(const Plan& plan, int cluster);

}  // namespace ravnest::plan
