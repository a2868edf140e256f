// An operator of a graph as the cost models see it: its name, and the sizes of what it is given and makes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/sizes.h"

namespace ravnest::graph {

// A view: the operator in the graph and the shapes must outlive it.
class ShapedOperator {
 public:
  ShapedOperator(const ir::Operator& op, const Shapes& shapes);

  const ir::Operator& in_graph() const { return op_; }
  // "relu" for "torch.ops.aten.relu_.default": no namespace, no overload, no mark of the in-place form.
  std::string_view name() const { return name_; }
  bool in_place() const { return in_place_; }

  const Shape& shape(ir::ValueId value) const { return shapes_[value]; }
  // The tensor that the argument is; -1 where it is none, or left out.
  ir::ValueId value(std::string_view argument) const;
  // The same, as its shape; nullptr where there is none.
  const Shape* input(std::string_view argument) const;
  // The first of two names that is given: operators call their first tensor "input" or "self".
  ir::ValueId first() const;
  std::vector<ir::ValueId> values(std::string_view argument) const;  // of a list of tensors
  std::vector<ir::ValueId> inputs() const;                           // all values that it is given
  std::vector<ir::ValueId> outputs() const;                          // all values that it makes
  // The first result, or a number's shape where there is none.
  const Shape& output() const;

  bool flag(std::string_view argument, bool otherwise) const;
  double number(std::string_view argument, double otherwise) const;
  std::string_view text(std::string_view argument) const;  // "" where it is none

 private:
  const ir::Argument* find(std::string_view argument) const;

  const ir::Operator& op_;
  const Shapes& shapes_;
  std::string_view name_;
  bool in_place_ = false;
};

}  // namespace ravnest::graph
