#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bindings.h"
#include "callbacks.h"
#include "ravnest/optim/callback.h"
#include "ravnest/optim/clip.h"
#include "ravnest/optim/optimizer.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

using optim::NamedTensors;
using optim::Optimizer;
using optim::OptimizerState;
using optim::Option;
using optim::Options;
using optim::ParameterGroup;

using Tensors = std::vector<at::Tensor>;

// Gradients may be None.
Tensors tensors_of(const py::iterable& objects) {
  Tensors tensors;
  for (const py::handle& object : objects)
    tensors.push_back(object.is_none() ? at::Tensor() : py::cast<at::Tensor>(object));
  return tensors;
}

py::list list_of(std::span<const at::Tensor> tensors) {
  py::list objects;
  for (const at::Tensor& tensor : tensors) objects.append(tensor.defined() ? py::cast(tensor) : py::none());
  return objects;
}

py::object object_of(const Option& option) {
  if (const auto* list = std::get_if<std::vector<double>>(&option)) return py::tuple(py::cast(*list));
  return py::cast(option);
}

py::dict dict_of(const ParameterGroup& group) {
  py::dict result;
  for (const auto& [name, option] : group.options) result[py::str(name)] = object_of(option);
  result["params"] = group.parameters;
  return result;
}

py::list dicts_of(std::span<const ParameterGroup> groups) {
  py::list result;
  for (const ParameterGroup& group : groups) result.append(dict_of(group));
  return result;
}

ParameterGroup group_of(const py::dict& dict) {
  ParameterGroup group;
  for (const auto& [key, value] : dict) {
    const auto name = py::cast<std::string>(key);
    if (name == "params") {
      group.parameters = py::cast<std::vector<std::size_t>>(value);
    } else if (!value.is_none()) {
      group.options.emplace(name, py::cast<Option>(value));
    }
  }
  return group;
}

}  // namespace

std::vector<ParameterGroup> groups_of(const std::vector<py::dict>& dicts) {
  std::vector<ParameterGroup> groups;
  for (const py::dict& dict : dicts) groups.push_back(group_of(dict));
  return groups;
}

namespace {

// By parameter: tensors, and what is none.
py::dict dict_of(const OptimizerState& state) {
  py::dict result;
  for (std::size_t index = 0; index < std::max(state.tensors.size(), state.values.size()); ++index) {
    py::dict named;
    if (index < state.tensors.size()) {
      for (const auto& [name, tensor] : state.tensors[index]) named[py::str(name)] = tensor;
    }
    if (index < state.values.size()) {
      for (const auto& [name, value] : state.values[index]) named[py::str(name)] = py::cast(value);
    }
    if (!named.empty()) result[py::int_(index)] = named;
  }
  return result;
}

void fill_in(OptimizerState& state, const py::dict& dict) {
  for (const auto& [key, value] : dict) {
    const auto index = py::cast<std::size_t>(key);
    if (state.tensors.size() <= index) state.tensors.resize(index + 1);
    if (state.values.size() <= index) state.values.resize(index + 1);
    for (const auto& [name, item] : py::cast<py::dict>(value)) {
      if (item.is_none()) continue;
      if (THPVariable_Check(item.ptr()))
        state.tensors[index].emplace(py::cast<std::string>(name), py::cast<at::Tensor>(item));
      else
        state.values[index].emplace(py::cast<std::string>(name), py::cast<Option>(item));
    }
  }
}

}  // namespace

OptimizerState state_from(const py::dict& dict) {
  OptimizerState state;
  state.groups = groups_of(py::cast<std::vector<py::dict>>(dict["param_groups"]));
  fill_in(state, py::cast<py::dict>(dict["state"]));
  return state;
}

py::dict state_of(const Optimizer& optimizer) { return state_of(optimizer.state()); }

py::dict state_of(const OptimizerState& state) {
  py::dict result;
  result["state"] = dict_of(state);
  result["param_groups"] = dicts_of(state.groups);
  return result;
}

namespace {

void load_state(Optimizer& optimizer, const py::iterable& parameters, const py::dict& state) {
  accept(optimizer.load(tensors_of(parameters), state_from(state)));
}

void step(Optimizer& optimizer, const py::iterable& parameters, const py::iterable& gradients) {
  const Tensors values = tensors_of(parameters);
  const Tensors directions = tensors_of(gradients);
  const py::gil_scoped_release release;
  optimizer.step(values, directions);
}

void set_option(Optimizer& optimizer, std::size_t group, const std::string& name, Option value) {
  if (group >= optimizer.groups().size()) throw py::index_error(text("there is no group ", group));
  optimizer.groups()[group].options.insert_or_assign(name, std::move(value));
}

// The functions: step(groups, parameters, gradients), state() -> {index: {name: tensor}}, load(parameters, state).
std::unique_ptr<Optimizer> from_functions(std::string name, const std::vector<py::dict>& groups,
                                          py::function step_function, const std::optional<py::function>& state,
                                          const std::optional<py::function>& load_function) {
  optim::OptimizerCallbacks callbacks;
  callbacks.step = [function = held(std::move(step_function))](std::span<const ParameterGroup> now,
                                                               std::span<const at::Tensor> parameters,
                                                               std::span<const at::Tensor> gradients) {
    const py::gil_scoped_acquire acquire;
    (*function)(dicts_of(now), list_of(parameters), list_of(gradients));
  };
  if (state) {
    callbacks.state = [function = held(*state)] {
      const py::gil_scoped_acquire acquire;
      OptimizerState kept;
      fill_in(kept, py::cast<py::dict>((*function)()));
      return kept;
    };
  }
  if (load_function) {
    callbacks.load = [function = held(*load_function)](std::span<const at::Tensor> parameters,
                                                       const OptimizerState& saved) {
      const py::gil_scoped_acquire acquire;
      (*function)(list_of(parameters), dict_of(saved));
      return Status();
    };
  }
  return std::make_unique<optim::CallbackOptimizer>(std::move(name), groups_of(groups), std::move(callbacks));
}

at::Tensor clip_grad_norm(const py::iterable& gradients, double max_norm, double norm_type, bool error_if_nonfinite) {
  const Tensors tensors = tensors_of(gradients);
  Result<at::Tensor> norm = internal("not clipped");
  {
    const py::gil_scoped_release release;
    norm = optim::clip_by_norm(tensors, {max_norm, norm_type, error_if_nonfinite});
  }
  return unwrap(std::move(norm));
}

void clip_grad_value(const py::iterable& gradients, double limit) {
  const Tensors tensors = tensors_of(gradients);
  const py::gil_scoped_release release;
  optim::clip_by_value(tensors, limit);
}

void bind_optimizers(py::module_& module) {
  py::class_<Optimizer>(module, "Optimizer")
      .def(py::init([](const std::string& name, const Options& options, const std::vector<py::dict>& groups) {
             return accepted(optim::make_optimizer(name, options, groups_of(groups)));
           }),
           py::arg("name"), py::arg("options") = Options(), py::arg("groups") = std::vector<py::dict>())
      .def_static("from_functions", &from_functions, py::arg("name"), py::arg("groups"), py::arg("step"),
                  py::arg("state") = py::none(), py::arg("load") = py::none())
      .def_property_readonly("name", [](const Optimizer& optimizer) { return std::string(optimizer.name()); })
      .def("step", &step, py::arg("parameters"), py::arg("gradients"))
      .def("groups", [](const Optimizer& optimizer) { return dicts_of(optimizer.groups()); })
      .def("set_option", &set_option, py::arg("group"), py::arg("name"), py::arg("value"))
      .def("state", static_cast<py::dict (*)(const Optimizer&)>(&state_of))
      .def("load", &load_state, py::arg("parameters"), py::arg("state"));
  module.def("optimizer_names", [] {
    const auto names = optim::optimizer_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace

void bind_optim(py::module_& module) {
  bind_optimizers(module);
  module.def("clip_grad_norm", &clip_grad_norm, py::arg("gradients"), py::arg("max_norm"), py::arg("norm_type") = 2.0,
             py::arg("error_if_nonfinite") = false);
  module.def("clip_grad_value", &clip_grad_value, py::arg("gradients"), py::arg("limit"));
}

}  // namespace ravnest::python
