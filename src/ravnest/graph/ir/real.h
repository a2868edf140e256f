// Whether a model is one of real numbers.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// Optimizers, averaging and saved stages work on real numbers: kUnsupported, with a way around, for a model with a
// complex parameter or buffer in its state dict.
Status check_real(const Model& model);

}  // namespace ravnest::ir
