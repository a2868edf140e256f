// Which memory each value of a graph lives in, and which values carry a gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/sizes.h"

namespace ravnest::graph {

enum class Owner : std::uint8_t {
  kModel,  // a parameter, buffer or constant
  kUser,   // an input of the call
  kPass,   // made by an operator
};

struct Memory {
  Owner owner = Owner::kPass;
  std::int64_t bytes = 0;
};

// Views share their base's memory, in-place results that of what they write, tied weights one. Unlike Flow, which must
// never miss an alias, this says what happens: a reshape is a view where the strides allow one and else a copy.
struct Storages {
  std::vector<int> of;  // per value; -1: not a tensor
  std::vector<Memory> memories;
};

// kUnsupported for operators that this build of torch does not know.
Result<Storages> find_storages(const ir::Model& model, const ir::Graph& graph, const Shapes& shapes);

// Per value: whether autograd computes a gradient for it. Parameters say so themselves; of a stage's inputs, those that
// an earlier stage sends do where they are floating.
std::vector<bool> gradient_flow(const ir::Model& model, const ir::Graph& graph);

}  // namespace ravnest::graph
