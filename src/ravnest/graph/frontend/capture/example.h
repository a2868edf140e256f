// The example inputs that a model is captured with, flat and at any batch size.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "ravnest/graph/frontend/script/item.h"
#include "ravnest/graph/frontend/script/recorder.h"

namespace ravnest::graph::script {

using Leaves = std::vector<c10::IValue>;

struct Example {
  std::vector<c10::IValue> arguments;  // positional; tensors, numbers, strings, None, and lists, tuples, dicts of them
  std::vector<std::string> argument_names;
  Leaves leaves;
  std::vector<std::string> leaf_names;
  std::string in_spec;
};

// Throws Refusal for what a graph cannot take.
Example make_example(std::vector<c10::IValue> arguments, std::vector<std::string> names);

// The arguments with these leaves in place of the example's own.
std::vector<c10::IValue> arguments_with(const Example& example, const Leaves& leaves);
// The same as inputs of a recording.
std::vector<Item> record_inputs(const Example& example, const Leaves& leaves, Recorder& recorder);

// What the model returned, flat, in the order in which a graph returns it.
Leaves flatten(const c10::IValue& value);

// The inputs whose first dimension is the batch: those that agree in it with the first tensor that has one.
struct BatchedLeaves {
  std::vector<std::size_t> leaves;
  std::int64_t size = 0;
};
BatchedLeaves find_batch(const Example& example);

// The leaves at another batch size, made of the example's own rows; tensors of their own in any case.
Leaves leaves_at(const Example& example, const BatchedLeaves& batch, std::int64_t size);

}  // namespace ravnest::graph::script
