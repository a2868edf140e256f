// Where a training graph is cut into units: the pieces of a step that run, and complete their gradients, one by one.
//
// Data parallelism sends a unit's gradients while earlier units still compute; sharding gathers a unit's parameters
// just before it runs. Both want pieces of like size, cut where little crosses. A unit is a stage in all but that one
// process has all of them: slice.h cuts both.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

enum class UnitRule : std::uint8_t {
  kBySize,  // about `most_units` of like size
  kBlocks,  // one for each numbered module ("encoder.layers.3"), and what lies between them
};

struct UnitOptions {
  UnitRule rule = UnitRule::kBySize;
  // By size: as many units as have at least so many bytes of parameters each, and no more than this unless they would
  // be larger than the most.
  int most_units = 12;
  std::int64_t least_bytes = 1 << 20;
  std::int64_t most_bytes = 25 << 20;
};

// The positions of the cuts, ascending, for Engine::slice; none for a model that is one unit. A model that can not be
// cut where the rule wants it has fewer. kUnsupported as analyse_flow.
Result<std::vector<int>> unit_cuts(const ir::Model& model, const UnitOptions& options = {});

}  // namespace ravnest::graph
