// Who sends to whom, from what a stage's archive knows of the chain that it belongs to.
#pragma once

#include "ravnest/graph/ir/graph.h"
#include "ravnest/stage/stage.h"

namespace ravnest::stage {

// A whole model is the only stage of its chain.
ir::StageInfo stage_of(const ir::Model& model);

Neighbours neighbours(const ir::StageInfo& stage, const ir::Routing& routing);

// A weight that several stages use is kept by the first of them.
inline int keeper_of(const std::vector<std::int32_t>& users) { return users.front(); }

// What the stage's machine has to know of its place; the schedule is left to the caller.
StageOptions stage_options(const ir::StageInfo& stage);

}  // namespace ravnest::stage
