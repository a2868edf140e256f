#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>

#include <filesystem>

#include "bindings.h"
#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/frontend/capture/closeness.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/weights.h"
#include "ravnest/graph/run/engine.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

using graph::Engine;
using graph::Mode;

Mode mode_of(bool train) { return train ? Mode::kTrain : Mode::kEval; }

py::object to_object(const c10::IValue& value) {
  if (value.isTensor()) return py::cast(value.toTensor());
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isString()) return py::str(value.toStringRef());
  return py::none();
}

py::list run(const Engine& engine, const py::list& inputs, bool train, std::uint64_t seed, std::uint64_t step,
             bool plain) {
  std::vector<c10::IValue> values;
  values.reserve(inputs.size());
  for (const py::handle& input : inputs) values.push_back(to_ivalue(input));
  graph::RunOptions options;
  if (plain)
    options.random = std::nullopt;
  else
    options.random = graph::RandomKey{seed, step};
  std::vector<c10::IValue> outputs;
  {
    const py::gil_scoped_release release;
    outputs = engine.run(mode_of(train), std::move(values), options);
  }
  py::list result(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) result[i] = to_object(outputs[i]);
  return result;
}

py::list sizes_of(const ir::TensorMeta& meta) {
  py::list sizes;
  for (const ir::Size& size : meta.sizes) {
    const std::string symbol = ir::bare_symbol(size);
    if (!size.symbolic())
      sizes.append(size.hint);
    else
      sizes.append(symbol.empty() ? size.expression : symbol);
  }
  return sizes;
}

py::list input_info(const Engine& engine, bool train) {
  const ir::Graph& graph = engine.graph(mode_of(train));
  py::list result;
  for (const ir::Input& input : graph.inputs) {
    py::dict info;
    if (input.kind == ir::InputKind::kFixed) {
      info["name"] = input.target;
    } else if (input.kind == ir::InputKind::kUser) {
      const ir::Value& value = graph.values[input.value];
      info["name"] = value.name;
      if (value.kind == ir::ValueKind::kTensor) {
        info["dtype"] = std::string(dtype_name(value.tensor.dtype));
        info["sizes"] = sizes_of(value.tensor);
        py::list example;
        for (const ir::Size& size : value.tensor.sizes) example.append(size.hint);
        info["example_sizes"] = example;
      }
    } else {
      continue;
    }
    result.append(info);
  }
  return result;
}

py::list operators(const Engine& engine, bool train) {
  py::list result;
  for (const ir::Operator& op : engine.graph(mode_of(train)).operators) {
    py::dict info;
    info["name"] = op.name;
    info["target"] = op.target;
    info["module"] = ir::module_path(op);
    result.append(info);
  }
  return result;
}

py::list cuts(const Engine& engine) {
  const ir::Model model = engine.model();
  py::list result;
  for (const graph::Cut& cut : unwrap(graph::possible_cuts(model))) {
    const ir::Operator& op = model.train.operators[cut.position];
    py::dict info;
    info["position"] = cut.position;
    info["operator"] = op.name;
    info["module"] = ir::module_path(op);
    info["legal"] = cut.refusal.empty();
    info["reason"] = cut.refusal;
    info["tensors"] = cut.tensors;
    info["bytes"] = cut.bytes;
    result.append(info);
  }
  return result;
}

const ir::Routing& routing(const Engine& engine, bool train) {
  if (!engine.stage()) throw Failure(invalid("this is a whole model, not a stage of one"));
  return train ? engine.stage()->train : engine.stage()->eval;
}

std::vector<std::pair<int, int>> inputs_of(const Engine& engine, bool train) {
  std::vector<std::pair<int, int>> result;
  for (const ir::Source& source : routing(engine, train).inputs) result.emplace_back(source.stage, source.index);
  return result;
}

void merge(const std::filesystem::path& train, const std::filesystem::path& eval, const std::filesystem::path& out,
           std::vector<std::string> checked_precisions) {
  const py::gil_scoped_release release;
  ir::Model merged = unwrap(ir::merge_captures(unwrap(ir::read_archive(train)), unwrap(ir::read_archive(eval))));
  merged.checked_precisions = std::move(checked_precisions);
  unwrap(ir::write_archive(merged, out));
}

// `pairs` of (name, the graph's, the model's own), `tensors` of the types that the model computes with.
py::list differences(const std::vector<std::tuple<std::string, py::object, py::object>>& pairs,
                     const std::vector<at::Tensor>& tensors) {
  const auto tensor_of = [](const py::object& object) {
    return object.is_none() ? at::Tensor() : object.cast<at::Tensor>();
  };
  std::vector<graph::Compared> compared;
  for (const auto& [name, captured, own] : pairs) compared.push_back({name, tensor_of(captured), tensor_of(own)});
  py::list result;
  for (const graph::Difference& each : graph::differences(compared, graph::coarsest_type(tensors)))
    result.append(py::make_tuple(each.name, each.absolute, each.largest, each.allowed, c10::toString(each.type)));
  return result;
}

Engine load(const std::string& path, const std::string& weights, const std::string& entry) {
  if (weights.empty() && !entry.empty()) throw py::value_error("entry= says which entry of weights=; give both");
  if (weights.empty()) return unwrap(Engine::load(path));
  ir::Model model = unwrap(ir::read_archive(path));
  unwrap(ir::load_weights(model, weights, entry));
  return unwrap(Engine::create(std::move(model)));
}

}  // namespace

c10::IValue to_ivalue(const py::handle& object) {
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  if (object.is_none()) return {};
  if (py::isinstance<py::bool_>(object)) return object.cast<bool>();
  if (py::isinstance<py::int_>(object)) return object.cast<std::int64_t>();
  if (py::isinstance<py::float_>(object)) return object.cast<double>();
  if (py::isinstance<py::str>(object)) return object.cast<std::string>();
  throw py::type_error("a graph takes tensors, numbers, strings and None, not " +
                       py::str(py::type::of(object)).cast<std::string>());
}

void bind_graph(py::module_& module) {
  module.def("merge", &merge, py::arg("train"), py::arg("eval"), py::arg("out"), py::kw_only(),
             py::arg("checked_precisions"));
  module.def("differences", &differences, py::arg("pairs"), py::arg("typed"));
  py::class_<Engine> model(module, "Model");
  module.def("load", &load, py::arg("path"), py::kw_only(), py::arg("weights") = "", py::arg("entry") = "");
  model
      .def("run", &run, py::arg("inputs"), py::kw_only(), py::arg("train"), py::arg("seed"), py::arg("step"),
           py::arg("plain"))
      .def("parameters", [](const Engine& engine) { return named_tensors(engine.parameters()); })
      .def("buffers", [](const Engine& engine) { return named_tensors(engine.buffers()); })
      .def(
          "in_spec", [](const Engine& engine, bool train) { return engine.graph(mode_of(train)).in_spec; },
          py::arg("train"))
      .def(
          "out_spec", [](const Engine& engine, bool train) { return engine.graph(mode_of(train)).out_spec; },
          py::arg("train"))
      .def(
          "arg_names", [](const Engine& engine, bool train) { return engine.graph(mode_of(train)).argument_names; },
          py::arg("train"))
      .def("input_info", &input_info, py::arg("train"))
      .def("operators", &operators, py::arg("train"))
      .def("cuts", &cuts)
      .def(
          "slice", [](const Engine& engine, const std::vector<int>& cuts) { return unwrap(engine.slice(cuts)); },
          py::arg("cuts"))
      .def(
          "save", [](const Engine& engine, const std::string& path) { unwrap(engine.save(path)); }, py::arg("path"))
      .def(
          "to", [](Engine& engine, const std::string& device) { engine = unwrap(engine.on(c10::Device(device))); },
          py::arg("device"))
      .def_property_readonly("stage", [](const Engine& engine) { return engine.stage() ? engine.stage()->index : -1; })
      .def("inputs", &inputs_of, py::arg("train"))
      .def(
          "consumers", [](const Engine& engine, bool train) { return routing(engine, train).consumers; },
          py::arg("train"))
      .def("tied", [](const Engine& engine) {
        return engine.stage() ? engine.stage()->tied : std::map<std::string, std::vector<std::int32_t>>();
      });
  bind_profile(model);
}

}  // namespace ravnest::python
