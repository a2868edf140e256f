#include "ravnest/graph/cost/profile.h"

#include <pybind11/stl.h>

#include "bindings.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

using graph::Engine;
using graph::Profile;

py::list operators_of(const Profile& profile, bool measured) {
  py::list result;
  for (const graph::OperatorProfile& each : profile.operators) {
    py::dict info;
    info["name"] = each.name;
    info["target"] = each.target;
    info["module"] = each.module;
    info["flops"] = each.forward_flops;
    info["backward_flops"] = each.backward_flops;
    info["output_bytes"] = each.output_bytes;
    info["parameter_bytes"] = each.parameter_bytes;
    info["trainable_elements"] = each.trainable_elements;
    info["saved_bytes"] = each.saved_bytes;
    if (measured) info["microseconds"] = each.microseconds;
    result.append(info);
  }
  return result;
}

py::list cuts_of(const Profile& profile, bool measured) {
  py::list result;
  for (const graph::CutProfile& cut : profile.cuts) {
    py::dict info;
    info["position"] = cut.position;
    info["operator"] = profile.operators[cut.position].name;
    info["module"] = profile.operators[cut.position].module;
    info["legal"] = cut.refusal.empty();
    info["reason"] = cut.refusal;
    info["tensors"] = cut.tensors;
    info["bytes"] = cut.bytes;
    info["gradient_bytes"] = cut.gradient_bytes;
    info["flops"] = cut.forward_flops;
    info["backward_flops"] = cut.backward_flops;
    info["parameter_bytes"] = cut.parameter_bytes;
    info["trainable_elements"] = cut.trainable_elements;
    info["saved_bytes"] = cut.saved_bytes;
    info["saved_again_bytes"] = cut.saved_again_bytes;
    if (measured) info["microseconds"] = cut.microseconds;
    result.append(info);
  }
  return result;
}

py::dict to_dict(const Profile& profile, bool measured) {
  py::dict result;
  result["operators"] = operators_of(profile, measured);
  result["cuts"] = cuts_of(profile, measured);
  result["parameter_bytes"] = profile.parameter_bytes;
  result["gradient_bytes"] = profile.gradient_bytes;
  result["buffer_bytes"] = profile.buffer_bytes;
  result["input_bytes"] = profile.input_bytes;
  result["saved_bytes"] = profile.saved_bytes;
  result["peak_training_bytes"] = profile.peak_training_bytes;
  if (measured) {
    result["forward_microseconds"] = profile.forward_microseconds;
    result["backward_microseconds"] = profile.backward_microseconds;
  }
  return result;
}

py::dict from_shapes(const Engine& engine, const ir::SymbolValues& sizes) {
  return to_dict(unwrap(graph::profile_shapes(engine.model(), sizes)), false);
}

py::dict from_a_pass(const Engine& engine, const py::list& inputs) {
  std::vector<c10::IValue> values;
  for (const py::handle& input : inputs) values.push_back(to_ivalue(input));
  Profile profile;
  {
    const py::gil_scoped_release release;
    profile = unwrap(graph::profile_run(engine, values));
  }
  return to_dict(profile, true);
}

}  // namespace

void bind_profile(py::class_<Engine>& model) {
  model.def("profile", &from_shapes, py::arg("sizes"));
  model.def("measure", &from_a_pass, py::arg("inputs"));
}

}  // namespace ravnest::python
