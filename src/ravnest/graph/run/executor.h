// Runs a graph through torch's dispatcher.
//
// Everything that can be decided once is decided at construction: operators are looked up, constants boxed, last uses
// found. A run then walks a flat list. Autograd records as it would for the same calls from Python, if grad mode is on
// in the calling thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/run/random.h"

namespace ravnest::graph {

// Sees every operator of a run, for profiles. Calls come in order, on the running thread.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before(const ir::Operator& op, std::span<const c10::IValue> arguments) = 0;
  virtual void after(const ir::Operator& op, std::span<const c10::IValue> results) = 0;
};

struct RunOptions {
  // Keyed generators; nothing: the plain stream of the process's generator, as the same calls from Python would draw.
  std::optional<RandomKey> random = RandomKey{};
  RunObserver* observer = nullptr;
  // Floating tensors may be of another floating type than they were captured in.
  bool any_floating_type = false;
};

// Immutable after construction; concurrent runs are safe as far as torch's are. Those with keyed random operators take
// turns; with the plain stream there may be only one.
class Executor {
 public:
  // `tensor_names` is the order in which run() will be given the tensors that the graph takes beside its user's inputs.
  // Devices that capture baked into the graph are replaced by `device`.
  // kUnsupported with the operator's name for what this build of torch cannot run.
  static Result<Executor> compile(std::shared_ptr<const ir::Graph> graph, const std::vector<std::string>& tensor_names,
                                  c10::Device device);
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Values are freed at their last use, unless autograd keeps them. Throws c10::Error for inputs that do not fit and
  // for whatever an operator throws, with the operator's name and module added.
  std::vector<c10::IValue> run(std::span<const at::Tensor> tensors, std::vector<c10::IValue> inputs,
                               const RunOptions& options) const;

  const ir::Graph& graph() const;

 private:
  struct Plan;
  explicit Executor(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

}  // namespace ravnest::graph
