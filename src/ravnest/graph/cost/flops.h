// How much arithmetic an operator call is, from sizes alone.
//
// A multiplication and an addition count as two. Matrix products, convolutions and attention are counted exactly, as
// torch's FlopCounterMode does (attention as its two products, causal or not). Everything else is an estimate that only
// has to be small where it is small: normalisation and softmax 5 per element, pooling its window per result, other
// arithmetic 1 per element of the result; views, copies, look-ups and size arithmetic nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {

std::int64_t forward_flops(const ShapedOperator& op);

// What autograd does for the call: for a product, as much as forward for each of its operands that needs a gradient
// (5/2 of forward for fused attention, which computes its weights again); for anything else as much as forward. Nothing
// where no input needs a gradient. `needs_gradient` is per value of the graph.
std::int64_t backward_flops(const ShapedOperator& op, const std::vector<bool>& needs_gradient);

}  // namespace ravnest::graph
