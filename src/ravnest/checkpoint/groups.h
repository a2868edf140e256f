// The optimizer's groups of several parts as those of the whole model. Only for this room.
#pragma once

#include <vector>

#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/same_tensors.h"

namespace ravnest::checkpoint {

// As assemble.h says. Parameters are called by their tensor's first name and stand in the model's order. kCorrupt for
// one that two groups have.
Result<std::vector<OptimizerGroup>> merged_groups(const std::vector<Part>& parts, const SameTensors& same);

}  // namespace ravnest::checkpoint
