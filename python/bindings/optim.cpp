#include <pybind11/stl.h>

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

py::dict dict_of(const std::vector<NamedTensors>& tensors) {
  py::dict result;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (tensors[index].empty()) continue;
    py::dict named;
    for (const auto& [name, tensor] : tensors[index]) named[py::str(name)] = tensor;
    result[py::int_(index)] = named;
  }
  return result;
}

std::vector<NamedTensors> named_tensors_of(const py::dict& dict) {
  std::vector<NamedTensors> tensors;
  for (const auto& [key, value] : dict) {
    const auto index = py::cast<std::size_t>(key);
    if (tensors.size() <= index) tensors.resize(index + 1);
    for (const auto& [name, tensor] : py::cast<py::dict>(value)) {
      if (!tensor.is_none()) tensors[index].emplace(py::cast<std::string>(name), py::cast<at::Tensor>(tensor));
    }
  }
  return tensors;
}

}  // namespace

py::dict state_of(const Optimizer& optimizer) {
  const OptimizerState state = optimizer.state();
  py::dict result;
  result["state"] = dict_of(state.tensors);
  result["param_groups"] = dicts_of(state.groups);
  return result;
}

namespace {

void load_state(Optimizer& optimizer, const py::iterable& parameters, const py::dict& state) {
  accept(optimizer.load(tensors_of(parameters), {groups_of(py::cast<std::vector<py::dict>>(state["param_groups"])),
                                                 named_tensors_of(py::cast<py::dict>(state["state"]))}));
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
      return named_tensors_of((*function)());
    };
  }
  if (load_function) {
    callbacks.load = [function = held(*load_function)](std::span<const at::Tensor> parameters,
                                                       const OptimizerState& saved) {
      const py::gil_scoped_acquire acquire;
      (*function)(list_of(parameters), dict_of(saved.tensors));
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
      .def("state", &state_of)
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
