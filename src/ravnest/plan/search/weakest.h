// Which nodes of a pool are far weaker than most: those that a pool may be faster without.
#pragma once

#include <vector>

#include "ravnest/plan/pool/machine.h"

namespace ravnest::plan {

// What is left of `nodes` without the weakest, for the few places where the next one is much stronger; at least half of
// them. A node is as weak as its compute, its link or its latency is, beside the median. None for a pool of equals.
std::vector<std::vector<int>> without_the_weakest(const std::vector<Machine>& machines, const std::vector<int>& nodes);

}  // namespace ravnest::plan
