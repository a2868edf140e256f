#include <pybind11/complex.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings.h"
#include "ravnest/graph/frontend/script/recorder.h"
#include "ravnest/graph/frontend/torchscript.h"
#include "ravnest/graph/run/engine.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

c10::IValue nested(const py::handle& object);

// TorchScript's lists and dicts are of one type, which the first element gives.
c10::TypePtr element_type(const std::vector<c10::IValue>& values) {
  if (values.empty() || values.front().isTensor()) return c10::TensorType::get();
  return values.front().type();
}

c10::IValue to_list(const py::list& objects) {
  std::vector<c10::IValue> values;
  for (const py::handle& object : objects) values.push_back(nested(object));
  c10::impl::GenericList list(element_type(values));
  for (c10::IValue& value : values) list.push_back(std::move(value));
  return list;
}

c10::IValue to_tuple(const py::tuple& objects) {
  std::vector<c10::IValue> values;
  for (const py::handle& object : objects) values.push_back(nested(object));
  return c10::ivalue::Tuple::create(std::move(values));
}

c10::IValue to_dict(const py::dict& objects) {
  std::vector<c10::IValue> values;
  for (const auto& [key, object] : objects) values.push_back(nested(object));
  c10::impl::GenericDict dict(c10::StringType::get(), element_type(values));
  std::size_t next = 0;
  for (const auto& [key, object] : objects) dict.insert(py::cast<std::string>(key), std::move(values[next++]));
  return dict;
}

c10::IValue nested(const py::handle& object) {
  if (py::isinstance<py::list>(object)) return to_list(py::reinterpret_borrow<py::list>(object));
  if (py::isinstance<py::tuple>(object)) return to_tuple(py::reinterpret_borrow<py::tuple>(object));
  if (py::isinstance<py::dict>(object)) return to_dict(py::reinterpret_borrow<py::dict>(object));
  return to_ivalue(object);
}

graph::Engine load_script(const std::string& path, const py::list& example_inputs) {
  std::vector<c10::IValue> inputs;
  for (const py::handle& input : example_inputs) inputs.push_back(nested(input));
  const py::gil_scoped_release release;
  return unwrap(graph::Engine::create(unwrap(graph::load_script(path, std::move(inputs)))));
}

// An argument of a recorded call as Python's torch has it; values of the recording stay references.
struct AsPython {
  py::object torch = py::module_::import("torch");

  py::object operator()(ir::None) const { return py::none(); }
  py::object operator()(DType dtype) const { return torch.attr(std::string(dtype_name(dtype)).c_str()); }
  py::object operator()(StridedLayout) const { return torch.attr("strided"); }
  py::object operator()(const Device& device) const {
    return device.index ? torch.attr("device")(device.type, *device.index) : torch.attr("device")(device.type);
  }
  py::object operator()(MemoryFormat format) const {
    switch (format) {
      case MemoryFormat::kContiguous: return torch.attr("contiguous_format");
      case MemoryFormat::kChannelsLast: return torch.attr("channels_last");
      case MemoryFormat::kChannelsLast3d: return torch.attr("channels_last_3d");
      case MemoryFormat::kPreserve: return torch.attr("preserve_format");
    }
    return py::none();
  }
  template <class T>
  py::object operator()(const T& value) const {
    return py::cast(value);
  }

  py::object of(const ir::Argument& argument) const { return std::visit(*this, argument); }
  py::list of(const std::vector<ir::Argument>& arguments) const {
    py::list result;
    for (const ir::Argument& argument : arguments) result.append(of(argument));
    return result;
  }
};

// (target, args, kwargs, results, module stack)
py::tuple to_python(const ir::Operator& op, const AsPython& as_python) {
  py::list args;
  py::dict kwargs;
  for (const ir::NamedArgument& input : op.inputs) {
    if (input.keyword)
      kwargs[py::str(input.name)] = as_python.of(input.value);
    else
      args.append(as_python.of(input.value));
  }
  return py::make_tuple(op.target, args, kwargs, as_python.of(op.outputs), op.module_stack);
}

// Tensors that the calls read come with their names in front of the user's own, which have none.
py::dict to_python(const graph::script::Recording& recording) {
  const AsPython as_python;
  py::list inputs;
  for (const ir::Input& input : recording.graph.inputs) {
    if (input.kind != ir::InputKind::kFixed) inputs.append(py::make_tuple(input.target, input.value));
  }
  py::list operators;
  for (const ir::Operator& op : recording.graph.operators) operators.append(to_python(op, as_python));
  py::list guards;
  for (const graph::script::Guard& guard : recording.guards)
    guards.append(py::make_tuple(guard.number, torch::jit::toPyObject(guard.expected)));
  py::dict result;
  result["inputs"] = inputs;
  result["operators"] = operators;
  result["guards"] = guards;
  result["outputs"] = as_python.of(recording.graph.outputs);
  result["out_spec"] = recording.graph.out_spec;
  result["constants"] = named_tensors(recording.constants);
  return result;
}

// `arguments` of the forward by position.
py::dict record_script(const torch::jit::Module& module, const py::list& arguments) {
  const std::vector<c10::Argument>& declared = module.get_method("forward").function().getSchema().arguments();
  std::vector<c10::IValue> inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const py::object argument = arguments[i];
    try {
      inputs.push_back(torch::jit::toIValue(argument, declared.at(i + 1).type()));
    } catch (const py::cast_error& error) {
      throw py::type_error("the script's forward does not take this as " + declared[i + 1].name() + ": " +
                           error.what());
    }
  }
  const auto record = [&] {
    const py::gil_scoped_release release;
    return unwrap(graph::record_script(module, std::move(inputs)));
  };
  return to_python(record());
}

}  // namespace

void bind_script(py::module_& module) {
  module.def("load_script", &load_script, py::arg("path"), py::arg("inputs"));
  module.def("record_script", &record_script, py::arg("module"), py::arg("inputs"));
  py::class_<ir::Ref>(module, "Value").def_readonly("id", &ir::Ref::value);
}

}  // namespace ravnest::python
