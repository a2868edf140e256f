#include <pybind11/stl.h>

#include "bindings.h"
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

}  // namespace

void bind_script(py::module_& module) { module.def("load_script", &load_script); }

}  // namespace ravnest::python
