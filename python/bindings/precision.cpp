// What a captured graph computes in 16 bits, for ravnest.capture.precision.
#include <pybind11/stl.h>

#include <exception>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/strategy/mixed_precision.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;

// Of every operator that gives tensors: its name, target and module, and the tensors' types.
using Typed = std::tuple<std::string, std::string, std::string, std::vector<std::string>>;

class TypeWatch final : public graph::RunObserver {
 public:
  void before(const ir::Operator& /*op*/, std::span<const c10::IValue> /*arguments*/) override {}
  void after(const ir::Operator& op, std::span<const c10::IValue> results) override {
    std::vector<std::string> types;
    for (const c10::IValue& result : results) {
      if (result.isTensor()) types.push_back(type_of(result.toTensor()));
      if (!result.isTensorList()) continue;
      for (const at::Tensor& each : result.toTensorVector()) types.push_back(type_of(each));
    }
    if (!types.empty()) seen.emplace_back(op.name, op.target, ir::module_path(op), std::move(types));
  }

  std::vector<Typed> seen;

 private:
  static std::string type_of(const at::Tensor& tensor) {
    return tensor.defined() ? std::string(dtype_name(graph::from_torch(tensor.scalar_type()))) : "none";
  }
};

// A pass of the graph as a rank runs it. The operators that it came to; and where it failed, why.
std::pair<std::vector<Typed>, std::string> result_types(const graph::Engine& engine, const py::list& inputs,
                                                        const std::string& precision, bool train) {
  strategy::MixedPrecision mixed(engine, accepted(strategy::parse_precision(precision)));
  std::vector<c10::IValue> values;
  for (const py::handle& input : inputs) values.push_back(to_ivalue(input));
  TypeWatch watch;
  std::string failure;
  {
    const py::gil_scoped_release release;
    const at::NoGradGuard without_record;
    graph::RunOptions options = mixed.run_options();
    options.observer = &watch;
    try {
      (void)engine.run(train ? graph::Mode::kTrain : graph::Mode::kEval, mixed.tensors(),
                       mixed.inputs(std::move(values)), options);
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {  // oneDNN's, and numbers that a type does not hold
      failure = error.what();
    }
  }
  return {std::move(watch.seen), std::move(failure)};
}

}  // namespace

void bind_precision(py::module_& module) {
  module.def("kept_in_float32", &strategy::kept_in_float32, py::arg("graph"));
  module.def("result_types", &result_types, py::arg("graph"), py::arg("inputs"), py::arg("precision"), py::kw_only(),
             py::arg("train"));
}

}  // namespace ravnest::python
