// Functions of the user's that the compute thread calls.
#pragma once

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/worker/model_worker.h"

namespace ravnest::python {

// function(head as a dict, flat outputs) -> (loss, samples, correct).
worker::Criterion criterion_of(pybind11::function function);

// Name, options and groups, as _core.Optimizer is made of.
using NamedOptimizerForm = std::tuple<std::string, optim::Options, std::vector<pybind11::dict>>;
// One of the user's: its name, and three functions: step(parameters, gradients or None) makes one step, state() gives
// what state_of gives, and load(state) takes that back.
using ForeignOptimizerForm = std::tuple<std::string, pybind11::function, pybind11::function, pybind11::function>;
using OptimizerForm = std::variant<std::monostate, NamedOptimizerForm, ForeignOptimizerForm>;

// Null for None. ValueError for names and options that do not exist.
std::unique_ptr<optim::Optimizer> optimizer_of(const OptimizerForm& form);

// {"lr": 0.1, ..., "params": [0, 1]}; None, as in torch's foreach and fused, is for not given.
std::vector<optim::ParameterGroup> groups_of(const std::vector<pybind11::dict>& dicts);
// {"state": {index: {name: tensor}}, "param_groups": [...]}, as an optimizer's state_dict.
pybind11::dict state_of(const optim::Optimizer& optimizer);
pybind11::dict state_of(const optim::OptimizerState& state);
optim::OptimizerState state_from(const pybind11::dict& state);

// What the function raises becomes a std::runtime_error with its message, whoever catches it; but Ctrl-C stays what it
// is: a rank calls such functions on Python's main thread. With the GIL held.
template <class... Arguments>
pybind11::object call(const pybind11::function& function, Arguments&&... arguments) {
  try {
    return function(std::forward<Arguments>(arguments)...);
  } catch (pybind11::error_already_set& raised) {
    if (raised.matches(PyExc_KeyboardInterrupt)) throw;
    const std::string type = pybind11::str(raised.type().attr("__name__"));
    const std::string message = pybind11::str(raised.value());
    // Stays torch's own too, for who computes to say what would help.
    if (type == "OutOfMemoryError") throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, message);
    throw std::runtime_error(type == "CallbackError" ? message : type + ": " + message);
  }
}

}  // namespace ravnest::python
