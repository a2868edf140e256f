#include "ravnest/graph/ir/real.h"

namespace ravnest::ir {

Status check_real(const Model& model) {
  for (const auto& [name, payload] : model.weights) {
    if (payload.dtype != DType::kComplex32 && payload.dtype != DType::kComplex64 && payload.dtype != DType::kComplex128)
      continue;
    return unsupported("the model's ", payload.is_parameter ? "parameter" : "buffer", " \"", name, "\" is ",
                       dtype_name(payload.dtype),
                       ", but ravnest trains real ones: keep it as a real tensor with a last dimension of 2, and use "
                       "torch.view_as_complex of it in forward");
  }
  return {};
}

}  // namespace ravnest::ir
