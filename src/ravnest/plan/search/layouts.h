// Groupings of a pool that are likely to be good, for a search to begin with.
#pragma once

#include <vector>

#include "ravnest/plan/pool/machine.h"

namespace ravnest::plan {

using Layout = std::vector<std::vector<int>>;  // clusters of nodes

// `nodes` in so many clusters, none smaller than `smallest`: like with like, by the order of the pool, by RAM and by
// speed, and fair hands of the large and of the fast. There must be nodes enough. `machines` is by node.
std::vector<Layout> layouts(const std::vector<int>& nodes, const std::vector<Machine>& machines, int clusters,
                            int smallest);

}  // namespace ravnest::plan
