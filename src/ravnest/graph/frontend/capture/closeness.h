// How far apart the numbers of a captured graph and of the model itself are, and whether rounding explains it.
//
// The one rule by which every capture is compared with its model, from Python and from C++: equal to the bit, or apart
// by no more than rounding makes of another order of the same sums, relative to the tensor's largest value, or
// different.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

namespace ravnest::graph {

// One thing of both; an undefined tensor, such as a gradient that nobody needed, stands for zeros.
struct Compared {
  std::string name;
  at::Tensor captured;
  at::Tensor own;
};

struct Difference {
  std::string name;
  double absolute = 0;    // the largest; infinite where the two cannot be compared
  double largest = 0;     // of the model's own values
  double allowed = 0;     // what rounding may make, absolute
  at::ScalarType type{};  // whose rounding that is
  double excess() const;  // how often the allowed one goes into it; infinite where none is
  bool rounding() const { return excess() <= 1; }
};

// What rounding may make of a tensor's largest value: 1e-12 for float64, 1e-5 for float32, 5e-3 for float16, 2e-2 for
// bfloat16 and coarser; nothing for what is not a floating-point number. Complex numbers as their parts.
double rounding_of(at::ScalarType type);

// The type with the coarsest rounding among the floating-point ones of these; float64 where there are none.
at::ScalarType coarsest_type(std::span<const at::Tensor> tensors);

// What is not equal to the bit, in the given order. All of `compared` is of one kind (outputs, gradients, buffers): a
// tensor whose values are next to nothing beside the others', such as a gradient that is zero but for rounding, is
// measured by a hundredth of the largest of all. `coarsest` is the coarsest type that the model computes with: no
// tensor is held to less.
std::vector<Difference> differences(std::span<const Compared> compared, at::ScalarType coarsest);

}  // namespace ravnest::graph
