// The example inputs that `torch.export.load` insists on finding in an archive.
#pragma once

#include <cstddef>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// A `torch.save` file of (args, kwargs), shaped as the graph's in_spec says. Tensors have the sizes of the capture
// but not its data: each is one zero, expanded, so that no user's data travels with a model.
Result<std::vector<std::byte>> sample_inputs(const Graph& graph);

}  // namespace ravnest::ir
