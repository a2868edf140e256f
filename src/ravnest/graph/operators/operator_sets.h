// Groups of operators that the cost models treat alike, by the name that ShapedOperator gives them.
#pragma once

#include <string_view>
#include <vector>

#include "ravnest/graph/operators/shaped_operator.h"

namespace ravnest::graph {

// Views, copies, constants and look-ups: bytes are moved or made, nothing is computed.
bool moves_data_only(std::string_view name);

// Results that never carry a gradient, whatever they are made of.
bool stops_gradient(std::string_view name);

// The tensors that a product multiplies with each other, so that each one's gradient needs the others; empty for what
// is no product. A recurrent layer counts as two: its input and its weights.
std::vector<ir::ValueId> product_operands(const ShapedOperator& op);

}  // namespace ravnest::graph
