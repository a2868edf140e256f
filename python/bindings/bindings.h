// The parts of ravnest._core, one function per folder of src/ravnest, and what they share.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "ravnest/base/status.h"

namespace ravnest::python {

// A failed Status on its way to Python, where it is ravnest._core.Error.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const Status& status) : std::runtime_error(status.message()) {}
};

inline void unwrap(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw Failure(result.status());
  return std::move(result).value();
}

void bind_errors(pybind11::module_& module);
void bind_graph(pybind11::module_& module);

}  // namespace ravnest::python
