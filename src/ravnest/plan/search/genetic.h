// Which nodes form clusters together: a genetic algorithm over groupings of the pool.
//
// A candidate is a partition of all nodes into groups. Children take whole groups from one parent and the rest from the
// other, or differ from one parent by a moved node, two swapped nodes, a group split or two merged; the slowest group
// is changed more often than the others, since it holds back the pool. The best candidates always survive. The last
// generation's best is improved for as long as a move or swap of its slowest group helps.
// The same seed gives the same result on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ravnest/plan/search/score.h"

namespace ravnest::plan {

struct GeneticOptions {
  std::uint64_t seed = 0;
  int min_cluster_size = 2;
  // Called with the share of the work that is done; false ends the search early with the best so far.
  std::function<bool(double)> progress;
};

// The fittest groupings of `nodes` that were found, the best first, none as fit as another. They may not fit, where
// nothing that was tried does; none where the nodes are fewer than the smallest cluster.
std::vector<Groups> evolve(Scorer& scorer, const std::vector<int>& nodes, const GeneticOptions& options);

}  // namespace ravnest::plan
