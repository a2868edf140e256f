// A training step as a chain of units: pieces of the graph (graph/cut/units.h), each with an autograd record of its
// own.
//
// One process has all of them, over one set of tensors. Forward runs them in order, backward in reverse, so that
// whoever watches knows when a unit is about to run and when its gradients are complete. Loss, gradients and buffers
// are those of the uncut graph to the bit: random numbers are keyed by an operator's place in the whole model, and
// where several units read a value, its gradient is added up in the order of one record (graph/run/differentiate.h). A
// parameter that several units use belongs to none of them but to the root unit, which is there for the whole step and
// whose gradients are complete last.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::strategy {

// Told of a step, on the thread that runs it. Units count from 0 in the order of forward; `Chain::root()` is behind
// them.
class ChainObserver {
 public:
  virtual ~ChainObserver() = default;
  virtual void before_forward(int /*unit*/) {}
  virtual void after_forward(int /*unit*/) {}
  virtual void before_backward(int /*unit*/) {}
  // The gradients of this pass for Chain::parameters_of(unit), in its order: undefined for those that the loss does not
  // reach. For every unit once, the last one first and the root unit at the end. May be moved from.
  virtual void after_backward(int unit, std::span<at::Tensor> gradients) = 0;
};

// Immutable; passes are for one thread at a time.
class Chain {
 public:
  // Cuts before these operators of the training graph; none: one unit. The whole engine's tensors are the chain's.
  static Result<Chain> cut(const graph::Engine& whole, std::span<const int> cuts);

  int units() const { return static_cast<int>(units_.size()); }
  int root() const { return units(); }
  // The engine's parameters that are trained, each once, as indices of its tensors.
  std::span<const std::size_t> parameters() const { return parameters_; }
  // Those of a unit, as indices into parameters(). In the order in which backward completes them, as far as that is
  // known: the last used first.
  std::span<const std::size_t> parameters_of(int unit) const { return owned_[static_cast<std::size_t>(unit)]; }

  // A forward that was recorded and waits for its backward.
  class Pass {
   public:
    // What the model returns; the loss is made of them.
    std::vector<c10::IValue> outputs;

   private:
    friend class Chain;
    struct Unit {
      std::vector<c10::IValue> inputs;
      std::vector<bool> takes_gradient;  // by input
      std::vector<at::Tensor> outputs;
    };
    std::vector<Unit> units;
    std::vector<at::Tensor> parameters;  // those that it ran on, in the order of Chain::parameters
  };

  // `tensors` stand in the places of the engine's own, such as 16-bit copies (mixed_precision.h); the trained ones
  // require a gradient.
  Pass forward(std::span<const at::Tensor> tensors, std::vector<c10::IValue> inputs, const graph::RunOptions& options,
               ChainObserver& observer) const;
  // Where the record of a loss that was made of the pass's outputs may end: parameters, and what earlier units made.
  std::vector<at::Tensor> leaves(const Pass& pass) const;
  // From a loss of one element that was made of the pass's outputs.
  void backward(Pass pass, const at::Tensor& loss, ChainObserver& observer) const;

 private:
  struct Unit {
    graph::Engine engine;
    std::vector<std::size_t> tensors;     // of the whole engine, in the order of this one's
    std::vector<std::size_t> parameters;  // that it uses, as indices into parameters()
  };
  using Edge = std::pair<std::int32_t, std::int32_t>;  // a unit and its output's index
  using Gradients = std::map<Edge, at::Tensor>;

  void backward_of(int unit, Pass& pass, const at::Tensor& loss, Gradients& edges, std::vector<at::Tensor>& parameters,
                   ChainObserver& observer) const;

  std::vector<Unit> units_;
  std::vector<std::size_t> parameters_;
  std::vector<std::vector<std::size_t>> owned_;  // by unit, then the root's
};

}  // namespace ravnest::strategy
