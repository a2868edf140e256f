// Gradients kept within bounds, in place, before an update; to the bit as torch.nn.utils does it.
//
// Undefined gradients are passed over. Where a model's gradients are spread over several nodes, take each one's
// gradient_norm, combine them, and call scale_to_norm with the whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ravnest/base/status.h"

namespace ravnest::optim {

// The norm of all gradients as one vector, where the first of them is; norm_type 2, infinity, or any other.
at::Tensor gradient_norm(std::span<const at::Tensor> gradients, double norm_type = 2);

// Scales down to max_norm where total_norm is above it.
void scale_to_norm(std::span<const at::Tensor> gradients, double max_norm, const at::Tensor& total_norm);

struct NormLimit {
  double max_norm;
  double norm_type = 2;
  bool error_if_nonfinite = false;  // kInvalid, and nothing is changed; this waits for the device
};

// Both of the above. Returns the norm before.
Result<at::Tensor> clip_by_norm(std::span<const at::Tensor> gradients, const NormLimit& limit);

// Every element between -limit and limit.
void clip_by_value(std::span<const at::Tensor> gradients, double limit);

}  // namespace ravnest::optim
