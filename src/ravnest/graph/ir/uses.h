// Where in the whole model a stage's tensors are used first.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// The place of what the model returns: behind every operator.
inline constexpr int kReturned = std::numeric_limits<int>::max();

// The parameters and buffers that a stage keeps, in the order of the state dict, then buffers that are not part of it:
// each with the place in the whole model (Operator::place) of the first operator of the training graph that uses it
// under any of its names, or kReturned where only the return does. However a model is cut, the stage that keeps a
// parameter gives it the same place. A tied weight is kept by the first stage that uses it, and not listed by others. A
// weight that no operator uses goes with the one before it in the state dict, as slicing does. A buffer that no
// operator changes may be listed by several stages, each with a copy of it, also with a place that lies in another
// stage. Tied names are known by their storage: the model must still have its tensors.
std::vector<std::pair<std::string, int>> first_uses(const Model& stage);

}  // namespace ravnest::ir
