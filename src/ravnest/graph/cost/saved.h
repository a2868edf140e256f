// What autograd keeps of an operator until its backward, and what it needs for a moment, from sizes alone.
//
// Written down from torch's derivative formulas as its CPU kernels go through them: dropout keeps a mask of the input's
// type (CUDA keeps bools, so the true figure there is smaller); attention without dropout is fused and keeps one number
// per row, with dropout it keeps its weights three times; convolutions and LSTMs run in oneDNN, whose workspaces are
// written down as they were measured (x86 with AVX2, this process's number of threads).
// An operator that is not in the table is taken to keep all its inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {

struct Saved {
  std::vector<ir::ValueId> values;      // inputs and results that are kept, by themselves or as views of them
  std::int64_t hidden_bytes = 0;        // kept besides: masks, statistics, indices, copies that no value names
  std::int64_t forward_workspace = 0;   // held during the call beside inputs, results and what is kept
  std::int64_t backward_workspace = 0;  // held during its backward beside gradients and what is kept
};

// Nothing is kept where no input needs a gradient. `needs_gradient` is per value of the graph.
Saved saved_by(const ShapedOperator& op, const std::vector<bool>& needs_gradient);

}  // namespace ravnest::graph
