// For tests: all stages of a model as workers in one thread, with their messages carried by hand. Not part of any
// library.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/worker/model_worker.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::worker::testing {

using TensorsByName = std::map<std::string, at::Tensor>;

inline std::unique_ptr<optim::Optimizer> adam() {
  return std::move(optim::make_optimizer("Adam", {{"lr", 0.01}}).value());
}

// The tensors as a whole model has them, each by its name; copies, as they are now.
inline void add_tensors(const graph::Engine& engine, TensorsByName& tensors) {
  for (std::size_t i = 0; i < engine.names().size(); ++i)
    tensors[engine.names()[i]] = engine.tensors()[i].detach().clone();
}

inline void expect_same(const TensorsByName& ours, const TensorsByName& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name;
}

inline wire::Forward model_inputs(const wire::PassHead& head, const std::vector<at::Tensor>& inputs) {
  wire::Forward forward{.head = head, .stage = 0, .tensors = {}, .model_inputs = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    forward.model_inputs.push_back({static_cast<std::uint32_t>(i), false, to_wire(inputs[i], {}, true)});
  return forward;
}

// A pass that trains. It is not the last before an update unless that is said: `update` is the test's to call.
inline wire::PassHead training_pass(std::uint64_t number) { return {.pass = number, .step = number, .batch = number}; }

class Chain {
 public:
  using Optimizers = std::vector<std::unique_ptr<optim::Optimizer>>;

  // `options` are those of every stage. Each has an Adam unless `optimizers` says otherwise.
  Chain(const ir::Model& model, const std::vector<int>& cuts, const ModelWorkerOptions& options,
        Optimizers optimizers = {}) {
    std::vector<ir::Model> stages = graph::slice(model, cuts).value();
    if (optimizers.empty()) {
      for (std::size_t i = 0; i < stages.size(); ++i) optimizers.push_back(adam());
    }
    for (ir::Model& stage : stages) engines_.push_back(graph::Engine::create(std::move(stage)).value());
    for (std::size_t i = 0; i < engines_.size(); ++i)
      workers_.push_back(std::make_unique<ModelWorker>(engines_[i], std::move(optimizers[i]), options));
  }

  int size() const { return static_cast<int>(workers_.size()); }
  ModelWorker& worker(int stage) { return *workers_[static_cast<std::size_t>(stage)]; }
  const graph::Engine& engine(int stage) const { return engines_[static_cast<std::size_t>(stage)]; }
  const std::vector<wire::Report>& reports() const { return reports_; }
  const wire::Report& report() const { return reports_.back(); }

  // From the first stage to the last; what the first failure says.
  Status forward(const wire::PassHead& head, const std::vector<at::Tensor>& inputs) {
    forwards_[{0, head.pass}].push_back(model_inputs(head, inputs));
    for (int stage = 0; stage < size(); ++stage) {
      if (Status sent = carry(worker(stage).forward(head, take(forwards_, {stage, head.pass}))); !sent.ok())
        return sent;
    }
    return {};
  }

  // From the last stage to the first.
  Status backward(const wire::PassHead& head) {
    for (int stage = size() - 1; stage >= 0; --stage) {
      const Place place{stage, head.pass};
      if (Status sent = carry(worker(stage).backward(head, take(backwards_, place), take(tied_, place))); !sent.ok())
        return sent;
    }
    return {};
  }

  // Likewise, so that a keeper of tied weights comes after all their users.
  Status update(const Update& update) {
    for (int stage = size() - 1; stage >= 0; --stage) {
      if (Status sent = carry(worker(stage).update(update, take(tied_, {stage, update.number}))); !sent.ok())
        return sent;
    }
    return {};
  }
  Status update(std::uint64_t number) { return update(Update{.number = number}); }

  // One step on one batch.
  void train(std::uint64_t number, const std::vector<at::Tensor>& inputs) {
    const wire::PassHead head = training_pass(number);
    const Status went = forward(head, inputs);
    ASSERT_TRUE(went.ok()) << went;
    const Status came_back = backward(head);
    ASSERT_TRUE(came_back.ok()) << came_back;
    const Status updated = update(number);
    ASSERT_TRUE(updated.ok()) << updated;
  }

  TensorsByName tensors() const {
    TensorsByName tensors;
    for (const graph::Engine& engine : engines_) add_tensors(engine, tensors);
    return tensors;
  }

 private:
  using Place = std::pair<int, std::uint64_t>;  // a stage, and a pass or update

  template <class Messages>
  static Messages take(std::map<Place, Messages>& mail, const Place& place) {
    return std::exchange(mail[place], {});
  }

  Status carry(Result<std::vector<Outgoing>> outgoing) {
    if (!outgoing.ok()) return outgoing.status();
    for (auto& [stage, message] : *outgoing) {
      if (auto* forward = std::get_if<wire::Forward>(&message)) {
        forwards_[{stage, forward->head.pass}].push_back(std::move(*forward));
      } else if (auto* backward = std::get_if<wire::Backward>(&message)) {
        backwards_[{stage, backward->pass}].push_back(std::move(*backward));
      } else if (auto* tied = std::get_if<wire::TiedTensors>(&message)) {
        if (tied->gradients) {
          tied_[{stage, tied->number}].push_back(std::move(*tied));
        } else if (Status adopted = worker(stage).adopt(std::move(*tied)); !adopted.ok()) {
          return adopted;
        }
      } else {
        reports_.push_back(std::get<wire::Report>(message));
      }
    }
    return {};
  }

  std::vector<graph::Engine> engines_;
  std::vector<std::unique_ptr<ModelWorker>> workers_;
  std::map<Place, std::vector<wire::Forward>> forwards_;
  std::map<Place, std::vector<wire::Backward>> backwards_;
  std::map<Place, std::vector<wire::TiedTensors>> tied_;
  std::vector<wire::Report> reports_;
};

}  // namespace ravnest::worker::testing
