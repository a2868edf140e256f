// For tests: a model trained in one process by torch's autograd, which a chain of workers is held against. Not part of
// any library.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ravnest/graph/run/engine.h"
#include "ravnest/worker/testing/chain.h"

namespace ravnest::worker::testing {

constexpr std::uint64_t kSeed = 7;

// Not the same for every output, so that no gradient is zero by symmetry.
inline at::Tensor loss_of(const at::Tensor& outputs) {
  return (outputs * at::linspace(-1, 1, outputs.numel()).view(outputs.sizes())).square().mean();
}

// With loss_of, and half of the samples right.
inline ModelWorkerOptions with_criterion() {
  ModelWorkerOptions options;
  options.seed = kSeed;
  options.criterion = [](const wire::PassHead&, const std::vector<c10::IValue>& outputs) {
    const at::Tensor output = outputs.at(0).toTensor();
    const auto samples = static_cast<std::uint64_t>(output.size(0));
    return CriterionResult{loss_of(output), samples, samples / 2};
  };
  return options;
}

class Whole {
 public:
  explicit Whole(const ir::Model& model) : engine_(graph::Engine::create(model).value()), optimizer_(adam()) {
    for (const at::Tensor& tensor : engine_.tensors()) {
      const auto same = [&](const at::Tensor& known) { return known.is_same(tensor); };
      if (tensor.requires_grad() && std::ranges::none_of(parameters_, same)) parameters_.push_back(tensor);
    }
  }

  at::Tensor loss(std::uint64_t step, std::vector<c10::IValue> inputs) const {
    graph::RunOptions options;
    options.random = graph::RandomKey{kSeed, step};
    return loss_of(engine_.run(graph::Mode::kTrain, std::move(inputs), options).at(0).toTensor());
  }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    return torch::autograd::grad({loss}, parameters_, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }
  void step(const std::vector<at::Tensor>& gradients) { optimizer_->step(parameters_, gradients); }

  // One step on one batch; its loss.
  double train(std::uint64_t number, std::vector<c10::IValue> inputs) {
    const at::Tensor value = loss(number, std::move(inputs));
    step(gradients(value));
    return value.item<double>();
  }

  const graph::Engine& engine() const { return engine_; }
  TensorsByName tensors() const {
    TensorsByName tensors;
    add_tensors(engine_, tensors);
    return tensors;
  }

 private:
  graph::Engine engine_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace ravnest::worker::testing
