// What a model takes and gives, for those who train it by files alone: one tensor each.
#pragma once

#include <cstddef>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::train {

// kUnsupported, with the arguments' names, unless the model takes exactly one input.
Status check_one_input(const ir::Signature& call);

// Which of the flat outputs a loss is computed of: "logits" of a dict that has it, otherwise the first. kCorrupt where
// the signature cannot be read, kInvalid where there is no output.
Result<std::size_t> criterion_output(const ir::Signature& call);

}  // namespace ravnest::train
