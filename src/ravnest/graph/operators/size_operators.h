// Arithmetic on sizes, as Python's `operator` and torch's `sym_*` functions do it: what a captured graph computes of
// its symbols. Values are numbers (int, float or bool IValues), never tensors.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string>

namespace ravnest::graph {

struct SizeOperator {
  c10::IValue (*call)(std::span<const c10::IValue> arguments);
  std::size_t arity;  // the caller passes exactly so many
};

// nullptr where the target is none of them. The entry lives as long as the program.
const SizeOperator* find_size_operator(const std::string& target);

}  // namespace ravnest::graph
