// What training a model costs: per operator, per possible cut, and in all.
//
// From shapes alone, at any sizes and without running anything, or from a real pass. Bytes are bytes of tensors, as
// torch's allocators are asked for them; what kernels take from elsewhere (threads, oneDNN's scratch pads, the CUDA
// context) is not in them. Sums over operators never count a tensor twice, so the figures of the cuts are prefix sums:
// what lies between two cuts is the difference of theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/sizes.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::graph {

struct OperatorProfile {
  std::string name;
  std::string target;
  std::string module;
  std::int64_t forward_flops = 0;  // see flops.h for what is counted
  std::int64_t backward_flops = 0;
  std::int64_t output_bytes = 0;  // of its results, views included
  // Of the parameters that it is the first to use. A parameter that nobody uses counts with the one before it.
  std::int64_t parameter_bytes = 0;
  std::int64_t trainable_elements = 0;
  std::int64_t saved_bytes = 0;  // that a pass in flight holds because of it; see step_memory.h
  double microseconds = 0;       // of its forward; measured only
};

struct CutProfile {
  int position = 0;                 // before this operator
  std::string refusal;              // why it is not allowed; empty where it is
  int tensors = 0;                  // that cross it
  std::int64_t bytes = 0;           // of those, forward
  std::int64_t gradient_bytes = 0;  // of those that get a gradient, backward
  // Before the cut:
  std::int64_t forward_flops = 0;
  std::int64_t backward_flops = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t trainable_elements = 0;
  std::int64_t saved_bytes = 0;
  double microseconds = 0;
  // Held on both sides: counted in saved_bytes before the cut, and to be added to what a stage behind it holds.
  std::int64_t saved_again_bytes = 0;
};

struct Profile {
  Shapes shapes;  // that the figures are for, one per value of the training graph
  std::vector<OperatorProfile> operators;
  std::vector<CutProfile> cuts;      // positions 1 to operators.size() - 1
  std::int64_t parameter_bytes = 0;  // tied weights once
  std::int64_t gradient_bytes = 0;   // of the trainable ones
  std::int64_t buffer_bytes = 0;     // and constants
  std::int64_t input_bytes = 0;      // of the call
  // What a pass holds between its forward and its backward: what autograd keeps, the outputs, and those inputs that
  // autograd keeps.
  std::int64_t saved_bytes = 0;
  // The most that one training step holds at once: parameters, buffers, inputs, gradients, activations and what
  // operators need for a moment. No optimizer and no loss: its gradient at the outputs is taken as given.
  std::int64_t peak_training_bytes = 0;
  double forward_microseconds = 0;   // measured only
  double backward_microseconds = 0;  // measured only
};

// At the sizes of the capture but for `symbols`. kInvalid for a symbol that the model does not have.
Result<Profile> profile_shapes(const ir::Model& model, const ir::SymbolValues& symbols = {});

// One forward and backward pass over these inputs, after one to warm up; the model's buffers and gradients stay as they
// are. Shapes, times, saved_bytes and peak_training_bytes are the pass's own, on the engine's device; how the saved
// bytes spread over operators is estimated from its shapes. Throws what Executor::run throws.
Result<Profile> profile_run(const Engine& engine, const std::vector<c10::IValue>& inputs);

// The same for the shapes of a pass that was run.
Result<Profile> profile_shapes(const ir::Model& model, const Shapes& shapes);

// Fills the cuts' sums from the operators' figures; for those who change these.
void sum_up(Profile& profile);

}  // namespace ravnest::graph
