// For tests: a graph that runs. Not part of any library.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/graph/run/executor.h"

namespace ravnest::graph::testing {

// A model's training graph with its tensors on the CPU, ready to run. One that does not compile throws c10::Error.
struct Program {
  explicit Program(const ir::Model& model) : tensors(materialize(model.weights, at::kCPU)), executor(compiled(model)) {}

  static Executor compiled(const ir::Model& model) {
    std::vector<std::string> names;
    for (const auto& [name, payload] : model.weights) names.push_back(name);
    Result<Executor> executor = Executor::compile(std::make_shared<ir::Graph>(model.train), names, at::kCPU);
    TORCH_CHECK(executor.ok(), executor.status().message());
    return std::move(*executor);
  }

  at::Tensor operator()(std::vector<c10::IValue> inputs, const RunOptions& options = {}) const {
    return executor.run(tensors, std::move(inputs), options).at(0).toTensor();
  }

  std::string failure(std::vector<c10::IValue> inputs) const {
    try {
      executor.run(tensors, std::move(inputs), {});
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "ran";
  }

  std::vector<at::Tensor> tensors;
  Executor executor;
};

}  // namespace ravnest::graph::testing
