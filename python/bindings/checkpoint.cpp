#include "bindings.h"
#include "ravnest/checkpoint/fuse.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

// What the user can mend is a ValueError, a missing stage a FileNotFoundError.
checkpoint::Fused fused(const checkpoint::FuseOptions& options) {
  Result<checkpoint::Fused> result = invalid("not fused");
  {
    const py::gil_scoped_release release;
    result = checkpoint::fuse(options);
  }
  if (result.status().code() == Code::kNotFound) {
    PyErr_SetString(PyExc_FileNotFoundError, result.status().message().c_str());
    throw py::error_already_set();
  }
  return accepted(std::move(result));
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  module.def(
      "fuse",
      [](const std::string& trained, int cluster, bool safetensors) {
        const checkpoint::Fused written = fused({trained, cluster, safetensors});
        py::dict facts;
        facts["state_dict"] = written.state_dict.string();
        facts["safetensors"] = written.safetensors.string();
        facts["tensors"] = written.tensors;
        facts["bytes"] = written.bytes;
        return facts;
      },
      py::arg("trained"), py::kw_only(), py::arg("cluster"), py::arg("safetensors"));
}

}  // namespace ravnest::python
