// A stage of a plan, computed by another model than the planned one.
#pragma once

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// `own` at the place of `planned` in its chain: it takes what that stage is sent, and what it returns is sent on as
// that stage's outputs. kInvalid, with both numbers, where inputs or outputs are not as many, and where it lacks a
// weight that other stages share with the planned one.
Result<Model> replaced_stage(const Model& planned, Model own);

}  // namespace ravnest::ir
