// Arguments of a recorded call as the graph holds them.
#pragma once

#include <ATen/core/function_schema.h>

#include <string>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph::script {

class Recorder;

// By the operator's schema: the same number is a size, an element type or a memory format. A number that the graph
// computes stays one where the slot takes it, else it is fixed. Tensors must have their value in the graph.
ir::Argument to_argument(const Item& item, const c10::Argument& declared, Recorder& recorder);

// A number, a string or None.
ir::Argument constant_argument(const c10::IValue& value);

// The keys of a dict as tree specs hold them.
std::string dict_context(const Item& dict);

}  // namespace ravnest::graph::script
