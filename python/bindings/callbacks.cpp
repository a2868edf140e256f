#include "callbacks.h"

#include <pybind11/stl.h>

#include <tuple>
#include <vector>

#include "ravnest/optim/callback.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;

const char* name_of(wire::PassKind kind) {
  switch (kind) {
    case wire::PassKind::kTrain: return "train";
    case wire::PassKind::kValidate: return "validate";
    case wire::PassKind::kPredict: return "predict";
    case wire::PassKind::kAverage: return "average";
    case wire::PassKind::kSnapshot: return "snapshot";
  }
  return "";
}

py::dict to_dict(const wire::PassHead& head) {
  py::dict result;
  result["kind"] = name_of(head.kind);
  result["step"] = head.step;
  result["batch"] = head.batch;
  result["part"] = head.part;
  result["parts"] = head.parts;
  result["epoch"] = head.epoch;
  result["index"] = head.index;
  result["digest"] = head.digest;
  return result;
}

py::object to_python(const c10::IValue& value) { return value.isTensor() ? py::cast(value.toTensor()) : py::none(); }

std::unique_ptr<optim::Optimizer> stepped_by(const ForeignOptimizerForm& form) {
  const auto& [name, step, state, load] = form;
  optim::OptimizerCallbacks callbacks;
  callbacks.state = [function = held(state)] {
    const py::gil_scoped_acquire gil;
    return state_from(call(*function).cast<py::dict>());
  };
  callbacks.load = [function = held(load)](std::span<const at::Tensor>, const optim::OptimizerState& saved) {
    const py::gil_scoped_acquire gil;
    call(*function, state_of(saved));
    return Status();
  };
  callbacks.step = [function = held(step)](std::span<const optim::ParameterGroup>,
                                           std::span<const at::Tensor> parameters,
                                           std::span<const at::Tensor> gradients) {
    const py::gil_scoped_acquire gil;
    py::list own;
    py::list given;
    for (const at::Tensor& parameter : parameters) own.append(py::cast(parameter));
    for (const at::Tensor& gradient : gradients) given.append(gradient.defined() ? py::cast(gradient) : py::none());
    call(*function, own, given);
  };
  return std::make_unique<optim::CallbackOptimizer>(name, std::vector<optim::ParameterGroup>(), std::move(callbacks));
}

}  // namespace

worker::Criterion criterion_of(py::function function) {
  return [function = held(std::move(function))](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const py::gil_scoped_acquire gil;
    py::list flat;
    for (const c10::IValue& output : outputs) flat.append(to_python(output));
    const auto [loss, samples, correct] =
        call(*function, to_dict(head), flat).cast<std::tuple<at::Tensor, std::uint64_t, std::uint64_t>>();
    return worker::CriterionResult{loss, samples, correct};
  };
}

std::unique_ptr<optim::Optimizer> optimizer_of(const OptimizerForm& form) {
  if (const auto* foreign = std::get_if<ForeignOptimizerForm>(&form)) return stepped_by(*foreign);
  if (const auto* named = std::get_if<NamedOptimizerForm>(&form)) {
    const auto& [name, options, groups] = *named;
    return accepted(optim::make_optimizer(name, options, groups_of(groups)));
  }
  return nullptr;
}

}  // namespace ravnest::python
