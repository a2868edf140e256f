#include "ravnest/optim/schedules/schedule.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "bindings.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

using optim::LrSchedule;
using optim::Optimizer;
using optim::Option;
using optim::Options;
using optim::ScheduleState;

py::dict dict_of(const ScheduleState& state) {
  py::dict result;
  for (const auto& [name, value] : state.values) result[py::str(name)] = py::cast(value);
  py::list parts;
  for (const ScheduleState& part : state.parts) parts.append(dict_of(part));
  if (!state.parts.empty()) result["_schedulers"] = parts;
  return result;
}

ScheduleState schedule_state_of(const py::dict& dict) {
  ScheduleState state;
  for (const auto& [key, value] : dict) {
    const auto name = py::cast<std::string>(key);
    if (name != "_schedulers") {
      state.values.emplace(name, py::cast<Option>(value));
      continue;
    }
    for (const py::handle& part : py::cast<py::list>(value))
      state.parts.push_back(schedule_state_of(py::cast<py::dict>(part)));
  }
  return state;
}

using Factor = std::function<double(std::int64_t)>;

std::unique_ptr<LrSchedule> from_factors(std::vector<Factor> factors, Optimizer& optimizer) {
  return accepted(optim::lambda_schedule(std::move(factors), optimizer));
}

// Parts are (name, options), or functions as for LambdaLR.
std::unique_ptr<LrSchedule> sequence(const std::vector<std::variant<std::pair<std::string, Options>, Factor>>& parts,
                                     std::vector<std::int64_t> milestones, Optimizer& optimizer) {
  std::vector<std::unique_ptr<LrSchedule>> schedules;
  for (const auto& part : parts) {
    if (const auto* named = std::get_if<0>(&part)) {
      schedules.push_back(accepted(optim::make_schedule(named->first, named->second, optimizer)));
    } else {
      schedules.push_back(from_factors({std::get<1>(part)}, optimizer));
    }
  }
  return accepted(optim::sequence(std::move(schedules), std::move(milestones), optimizer));
}

}  // namespace

void bind_schedules(py::module_& module) {
  py::class_<LrSchedule>(module, "LrSchedule")
      .def(py::init([](const std::string& name, const Options& options, Optimizer& optimizer) {
             return accepted(optim::make_schedule(name, options, optimizer));
           }),
           py::keep_alive<1, 4>(), py::arg("name"), py::arg("options"), py::arg("optimizer"))
      .def_static("from_functions", &from_factors, py::keep_alive<0, 2>(), py::arg("factors"), py::arg("optimizer"))
      .def_static("sequence", &sequence, py::keep_alive<0, 3>(), py::arg("parts"), py::arg("milestones"),
                  py::arg("optimizer"))
      .def_property_readonly("name", [](const LrSchedule& schedule) { return std::string(schedule.name()); })
      .def(
          "step", [](LrSchedule& schedule, std::optional<double> metric) { accept(schedule.step(metric)); },
          py::arg("metric") = py::none())
      .def("last_lr", &LrSchedule::last_lr)
      .def("state", [](const LrSchedule& schedule) { return dict_of(schedule.state()); })
      .def(
          "load", [](LrSchedule& schedule, const py::dict& state) { accept(schedule.load(schedule_state_of(state))); },
          py::arg("state"));
  module.def("schedule_names", [] {
    const auto names = optim::schedule_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace ravnest::python
