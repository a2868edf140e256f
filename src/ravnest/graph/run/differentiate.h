// The backward of a piece of a model whose record is its own: a stage of a pipeline, a unit of a chain.
//
// What comes from other pieces is taken up by `detached`, so that the record ends there. Backward begins at the piece's
// own results, with the gradients that the pieces behind it have sent for them. A tensor that the piece reads may be
// such a beginning, too: then autograd adds the gradient of each use here, one by one, to the sum that came. So a value
// with readers in several pieces ends up with the very sum that the uncut model makes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace ravnest::graph {

// A tensor of another piece, with no record behind it.
at::Tensor detached(const at::Tensor& value, bool takes_gradient);

// The tensors among the values; undefined ones for the others.
std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& values);

// Where a backward begins.
class Roots {
 public:
  // Without a gradient for a loss of one element. Nothing is added where no gradient comes, or the tensor takes none.
  void add_loss(const at::Tensor& loss);
  void add(const at::Tensor& tensor, const at::Tensor& gradient);

  // The gradients of `sources`, undefined for those that nothing reaches. Frees the record, and forgets the roots.
  std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& sources);

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> gradients_;
};

// Whether it is as an optimizer takes it: memory of its own, of the parameter's type and laid out as it is.
bool is_own_gradient(const at::Tensor& gradient, const at::Tensor& parameter);
// The same gradient, or else a copy, of which that is true.
at::Tensor own_gradient(at::Tensor gradient, const at::Tensor& parameter);

}  // namespace ravnest::graph
