#include "training_process.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loop.h"
#include "ravnest/stage/routes.h"
#include "ravnest/train/loop/loop.h"
#include "ravnest/worker/model_worker.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;

train::Feeder feeder_of(TrainingProcess& own) { return {own.sink(), *own.position, poll_signals}; }

train::Sweep purpose_of(bool validation) { return validation ? train::Sweep::kValidation : train::Sweep::kEvaluation; }

// A source of Python's as this process goes through it.
struct Gone {
  Gone(TrainingProcess& own, PyBatchSource* given) {
    if (given == nullptr) return;
    joint = own.joint(*given, given->counts().unit());
    source = {joint ? joint.get() : given, &given->counts()};
  }

  std::unique_ptr<train::BatchSource> joint;
  train::LoopSource source;
};

// (seconds, samples)
std::pair<double, std::uint64_t> train_epochs(TrainingProcess& own, PyBatchSource& training,
                                              std::optional<PyBatchSource*> validation, std::uint64_t epochs,
                                              std::uint64_t val_freq) {
  const py::gil_scoped_release release;
  train::Feeder feeder = feeder_of(own);
  const Gone trains(own, &training);
  const Gone validates(own, validation.value_or(nullptr));
  const train::Trained trained =
      unwrap(train::train_epochs(feeder, {trains.source, validates.source, epochs, val_freq}));
  return {trained.seconds, trained.samples};
}

void sweep(TrainingProcess& own, PyBatchSource& source, bool validation) {
  const py::gil_scoped_release release;
  train::Feeder feeder = feeder_of(own);
  const Gone gone(own, &source);
  unwrap(train::sweep(feeder, gone.source, purpose_of(validation)));
}

void train_on(TrainingProcess& own, const py::list& inputs, std::uint64_t digest) {
  train::SourceBatch batch{model_inputs_of(inputs), digest};
  const py::gil_scoped_release release;
  unwrap(feeder_of(own).train(std::move(batch)));
}

void validate(TrainingProcess& own, const py::list& inputs, std::uint64_t digest, bool validation) {
  train::SourceBatch batch{model_inputs_of(inputs), digest};
  const py::gil_scoped_release release;
  unwrap(feeder_of(own).validate(std::move(batch), purpose_of(validation)));
}

// The outputs, flat.
py::list predict(TrainingProcess& own, const py::list& inputs) {
  std::vector<at::Tensor> tensors = model_inputs_of(inputs);
  const std::vector<wire::Tensor> outputs = [&] {
    const py::gil_scoped_release release;
    return unwrap(feeder_of(own).predict(std::move(tensors)));
  }();
  py::list flat;
  for (const wire::Tensor& output : outputs) flat.append(unwrap(worker::from_wire(output, c10::kCPU)).clone());
  return flat;
}

ir::Signature signature(const TrainingProcess& own, bool train) {
  const ir::StageInfo info = worker::stage_of(own.engine());
  return train ? info.train_call : info.eval_call;
}

}  // namespace

train::TrainingOptions TrainingProcess::options_of(const PyTrainingOptions& given, bool shows_progress) {
  train::TrainingOptions options = training_options_of(given, steering);
  optimizer = options.optimizer.get();
  if (shows_progress) {
    report::ProgressOptions shown;
    if (::isatty(STDERR_FILENO) == 1) shown.columns = report::terminal_columns(STDERR_FILENO);
    progress = std::make_unique<report::Progress>(std::cerr, std::move(shown));
    options.record.progress = progress.get();
  }
  return options;
}

void bind_training_process(py::module_& module) {
  py::class_<TrainingProcess>(module, "TrainingProcess")
      .def(
          "in_spec", [](const TrainingProcess& own, bool train) { return signature(own, train).in_spec; },
          py::arg("train"))
      .def(
          "out_spec", [](const TrainingProcess& own, bool train) { return signature(own, train).out_spec; },
          py::arg("train"))
      .def(
          "arg_names", [](const TrainingProcess& own, bool train) { return signature(own, train).argument_names; },
          py::arg("train"))
      .def("parameters", [](const TrainingProcess& own) { return named_tensors(own.engine().parameters()); })
      .def("buffers", [](const TrainingProcess& own) { return named_tensors(own.engine().buffers()); })
      .def(
          "set_option",
          [](TrainingProcess& own, std::size_t group, std::string name, optim::Option value) {
            own.steering->set(group, std::move(name), std::move(value));
          },
          py::arg("group"), py::arg("name"), py::arg("value"))
      .def("optimizer_state",
           [](const TrainingProcess& own) { return own.optimizer ? state_of(*own.optimizer) : py::dict(); })
      .def_property_readonly("position", [](const TrainingProcess& own) { return own.position; })
      .def("train_epochs", &train_epochs, py::arg("training"), py::arg("validation"), py::kw_only(), py::arg("epochs"),
           py::arg("val_freq"))
      .def("sweep", &sweep, py::arg("source"), py::kw_only(), py::arg("validation"))
      .def("train_on", &train_on, py::arg("inputs"), py::kw_only(), py::arg("digest"))
      .def("validate", &validate, py::arg("inputs"), py::kw_only(), py::arg("digest"), py::arg("validation"))
      .def("predict", &predict, py::arg("inputs"))
      .def("end_sweep",
           [](TrainingProcess& own) {
             const py::gil_scoped_release release;
             unwrap(feeder_of(own).end_sweep());
           })
      .def("end_epoch", [](TrainingProcess& own) { feeder_of(own).end_epoch(); })
      .def("drain",
           [](TrainingProcess& own) {
             const py::gil_scoped_release release;
             unwrap(feeder_of(own).drain());
           })
      .def(
          "warn", [](TrainingProcess& own, const std::string& line) { own.sink().warn(line); }, py::arg("line"))
      .def(
          "stop_at_nan", [](TrainingProcess& own, bool stop) { own.sink().record().stop_at_nan(stop); },
          py::arg("stop"))
      .def("accuracy", [](TrainingProcess& own) { return own.sink().record().accuracy(); })
      .def("samples_trained", [](TrainingProcess& own) { return own.sink().record().samples_trained(); });
}

}  // namespace ravnest::python
