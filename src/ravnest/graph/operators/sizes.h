// The sizes of a graph's values as numbers: what its size expressions come to for given symbols.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

struct Shape {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  std::int64_t elements() const;
  std::int64_t bytes() const;
  bool contiguous() const;
};

// One per value of the graph, in its order. What is not a tensor has the Shape of a single number.
using Shapes = std::vector<Shape>;

// The capture's own symbol values, overridden by `symbols`.
ir::SymbolValues symbol_values(const ir::Graph& graph, const ir::SymbolValues& symbols);

// The shapes for these symbols; where an expression cannot be evaluated, by its hint. Each distinct expression is
// parsed once.
Shapes evaluate_shapes(const ir::Graph& graph, const ir::SymbolValues& symbols);

// Whether a tensor of this shape can be seen with other sizes without a copy; `sizes` has as many elements.
bool viewable(const Shape& shape, const std::vector<std::int64_t>& sizes);

}  // namespace ravnest::graph
