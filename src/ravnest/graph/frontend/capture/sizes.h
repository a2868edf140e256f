// From what was seen at several batch sizes to a graph whose sizes say how they grow with the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/frontend/capture/observe.h"
#include "ravnest/graph/frontend/script/recorder.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

struct Runs {
  std::vector<std::int64_t> batches;
  std::vector<std::vector<Seen>> seen;  // per batch
};

// The recorded graph with its metadata, without the numbers that turned out constant and what only led to them. The
// first run gives the hints. With several runs, dimensions that changed are expressions of the batch, whose range is
// that in which every guard holds; with one, everything is fixed.
// kInvalid, with the reason, where the batch cannot be told from the runs or the guards allow no other.
Result<ir::Graph> settle_sizes(const Recording& recording, const Runs& runs);

// The range of batch sizes around the first run's in which all guards hold. Sizes of tensors are extrapolated.
Result<ir::SymbolRange> guarded_range(const Recording& recording, const Runs& runs);

}  // namespace ravnest::graph::script
