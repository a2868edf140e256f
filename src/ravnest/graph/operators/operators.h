// What the dispatcher knows of an operator, and what its schema does not say.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

// "torch.ops.aten.linear.default" -> the dispatcher's aten::linear. kUnsupported, with the name, where this build of
// torch has no such operator.
Result<c10::OperatorHandle> find_operator(const std::string& target);

// The library that brings the operator, where it is not torch's own: "transformers" of
// torch.ops.transformers.x.default.
std::string library_of(const std::string& target);

// True for the targets that compute on sizes ("_operator.mul", "torch.sym_max"): numbers, not tensors.
bool is_size_operator(const std::string& target);

// The operator's argument of this name, or nullptr where it was left to the schema's default.
const ir::Argument* find_argument(const ir::Operator& op, const std::string& name);

// What one call does to the values that it is given. Conservative: what may alias is said to alias.
struct Effects {
  std::vector<ir::ValueId> writes;                           // values whose memory the call changes
  std::vector<std::pair<ir::ValueId, ir::ValueId>> aliases;  // (output, input) that may share memory
  bool random = false;                                       // draws from a generator
};

// kUnsupported as find_operator.
Result<Effects> effects_of(const ir::Operator& op);

}  // namespace ravnest::graph
