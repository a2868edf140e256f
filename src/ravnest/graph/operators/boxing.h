// Arguments of a captured call as the dispatcher wants them: by the operator's schema, not by how they were written.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

// The argument's type with an Optional around it taken off.
c10::TypePtr plain_type(const c10::Argument& declared);

// A constant as the schema's type asks: an int for a float becomes a float, a number for a tensor a wrapped 0-d tensor,
// one number for a list as many as the list wants. Device arguments become `device`,
// and cuDNN is allowed where that is a GPU. `argument` names no values.
Result<c10::IValue> box_constant(const ir::Argument& argument, const c10::Argument& declared, c10::Device device);

// A number as the tensor that Python's arithmetic would make of it: 0-d, and weak in type promotion.
at::Tensor wrapped_number(const c10::IValue& number);

}  // namespace ravnest::graph
