// The parts of ravnest._core, one function per folder of src/ravnest, and what they share.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::python {

// A failed Status on its way to Python, where it is ravnest._core.Error, with `of_another` as is_of_another().
class Failure : public std::runtime_error {
 public:
  explicit Failure(const Status& status)
      : std::runtime_error(status.message()), is_of_another_(status.is_of_another()) {}

  bool is_of_another() const { return is_of_another_; }

 private:
  bool is_of_another_;
};

inline void unwrap(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw Failure(result.status());
  return std::move(result).value();
}

// The same, where what the user can mend is a ValueError.
template <class T>
T accepted(Result<T> result) {
  if (result.status().code() == Code::kInvalid) throw pybind11::value_error(result.status().message());
  return unwrap(std::move(result));
}

inline void accept(const Status& status) {
  if (status.code() == Code::kInvalid) throw pybind11::value_error(status.message());
  unwrap(status);
}

// As Python has them: name -> tensor, in this order.
inline pybind11::dict named_tensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  pybind11::dict result;
  for (const auto& [name, tensor] : tensors) result[pybind11::str(name)] = tensor;
  return result;
}

// A function of the user's, to be called, and let go, by threads of ours; take the GIL to call it.
inline std::shared_ptr<pybind11::function> held(pybind11::function function) {
  return {new pybind11::function(std::move(function)), [](pybind11::function* own) {
            const pybind11::gil_scoped_acquire gil;
            delete own;
          }};
}

// What a graph takes, from Python: a tensor, number, bool, string or None. TypeError for anything else.
c10::IValue to_ivalue(const pybind11::handle& object);

void bind_chain(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);
void bind_errors(pybind11::module_& module);
void bind_graph(pybind11::module_& module);
void bind_loop(pybind11::module_& module);
void bind_node(pybind11::module_& module);
void bind_object_store(pybind11::module_& module);
void bind_optim(pybind11::module_& module);
void bind_pipeline(pybind11::module_& module);
void bind_plan(pybind11::module_& module);
void bind_precision(pybind11::module_& module);
void bind_rank(pybind11::module_& module);
void bind_schedules(pybind11::module_& module);
void bind_script(pybind11::module_& module);
void bind_training_process(pybind11::module_& module);
void bind_profile(pybind11::class_<graph::Engine>& model);

}  // namespace ravnest::python
