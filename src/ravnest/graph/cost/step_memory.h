// The memory of one training step, walked through in its order: forward operator by operator, then backward.
//
// An activation lives to its last use, or, where autograd keeps it, to the backward of the last operator that does. A
// gradient lives from the backward of its value's first consumer to that of its maker; a parameter's to the end of the
// step. Parameters, buffers and the call's inputs are there all the time.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/cost/saved.h"
#include "ravnest/graph/cost/storages.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/sizes.h"

namespace ravnest::graph {

struct StepMemory {
  // Per operator: bytes that a pass in flight holds because of it: what autograd keeps of it and the model's outputs
  // that it makes. Memory that several hold counts for the first; parameters and buffers never.
  std::vector<std::int64_t> saved_bytes;
  // Per position: of the memory that counts for operators before it, what is held by operators behind it too. A stage
  // that begins there has to count it again, for the tensors that it is sent. An upper bound: of a view that is sent,
  // the whole memory counts.
  std::vector<std::int64_t> saved_again_bytes;
  // The most that the walk holds beyond what is there all the time.
  std::int64_t peak_bytes = 0;
};

StepMemory walk_step(const ir::Graph& graph, const Shapes& shapes, const Storages& storages,
                     const std::vector<bool>& needs_gradient);

}  // namespace ravnest::graph
