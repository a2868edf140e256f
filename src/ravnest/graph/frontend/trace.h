// torch::nn models as captured ones: the model is run on example inputs, and what it calls is written down.
//
//   torch::nn::Sequential net(...);
//   Result<ir::Model> model = ravnest::graph::trace(*net, {images});
//
// Traced once in training and once in eval mode. The batch (dimension 0 of the first tensor and of those that agree
// with it) may be of any size if the model works at others and its operators stay the same; sizes that the model
// computes in C++ are found by tracing at several. Everything else that C++ decides (branches, numbers, other sizes) is
// as it was on the example. Refused: a forward that reads numbers out of tensors (`item()`), and a graph whose outputs,
// gradients or buffers differ from the model's own, with what differs. `torch::equal`, which torch::nn's attention
// asks, may be asked of one tensor twice or of two that differ.
//
// The model is as before, its mode, buffers and gradients included, and so are the process's generators; nobody else
// may use them meanwhile. The result shares the memory of the model's tensors: make an Engine of it, or write it,
// before they change.
//
// This header needs nothing of torch::nn: the user's file has it.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::graph {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Any model that runs on libtorch.
struct Traceable {
  // Takes the arguments that it is given by position; returns tensors, numbers, None, or tuples, lists and dicts (with
  // strings as keys) of them. Must call the same operators every time.
  std::function<c10::IValue(std::vector<c10::IValue>)> forward;
  NamedTensors parameters;  // the very tensors that forward reads
  NamedTensors buffers;
  std::function<void(bool)> set_training;
};

// `names` are those of the arguments; those left out are called input_0, input_1, ...
Result<ir::Model> from_module(const Traceable& model, std::vector<c10::IValue> example_inputs,
                              std::vector<std::string> names = {}, const Logger& log = Logger());

namespace trace_detail {

template <class... Ts>
c10::IValue to_ivalue(const std::tuple<Ts...>& values);

template <class T>
c10::IValue to_ivalue(const T& value) {
  return c10::IValue(value);
}

template <class... Ts>
c10::IValue to_ivalue(const std::tuple<Ts...>& values) {
  return std::apply(
      [](const Ts&... each) {
        return c10::IValue(c10::ivalue::Tuple::create(std::vector<c10::IValue>{to_ivalue(each)...}));
      },
      values);
}

template <class Module, std::size_t... I>
c10::IValue call_forward(Module& module, const std::vector<c10::IValue>& inputs, std::index_sequence<I...>) {
  return to_ivalue(module.forward(inputs[I].toTensor()...));
}

template <class Module>
Traceable traceable(Module& module) {
  Traceable result;
  for (const auto& item : module.named_parameters()) result.parameters.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) result.buffers.emplace_back(item.key(), item.value());
  result.set_training = [&module](bool training) { module.train(training); };
  return result;
}

// Puts every module's own mode back, parents before children, since a parent's call reaches its children.
template <class Module>
class SavedModes {
 public:
  explicit SavedModes(Module& module) {
    for (const auto& each : module.modules(/*include_self=*/false)) saved_.emplace_back(each, each->is_training());
    training_ = module.is_training();
    module_ = &module;
  }
  ~SavedModes() {
    module_->train(training_);
    for (auto& [module, training] : saved_) module->train(training);
  }
  SavedModes(const SavedModes&) = delete;
  SavedModes& operator=(const SavedModes&) = delete;

 private:
  using Child = typename decltype(std::declval<Module&>().modules(false))::value_type;
  Module* module_;
  bool training_;
  std::vector<std::pair<Child, bool>> saved_;
};

}  // namespace trace_detail

// A module with a forward that takes Count tensors and returns a tensor, or a std::tuple (nested, if it likes) of what
// an IValue can hold.
template <std::size_t Count = 1, class Module>
Result<ir::Model> trace(Module& module, std::vector<c10::IValue> example_inputs, std::vector<std::string> names = {},
                        const Logger& log = Logger()) {
  if (example_inputs.size() != Count)
    return invalid("forward takes ", Count, " arguments, the example has ", example_inputs.size());
  const trace_detail::SavedModes<Module> modes(module);
  Traceable model = trace_detail::traceable(module);
  model.forward = [&module](std::vector<c10::IValue> inputs) {
    return trace_detail::call_forward(module, inputs, std::make_index_sequence<Count>());
  };
  return from_module(model, std::move(example_inputs), std::move(names), log);
}

}  // namespace ravnest::graph
