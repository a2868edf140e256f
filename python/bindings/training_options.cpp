#include "training_options.h"

#include <pybind11/stl.h>

#include <memory>
#include <variant>
#include <vector>

#include "ravnest/stage/routes.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;

std::function<void(std::uint64_t)> counter_of(const std::optional<py::function>& function) {
  if (!function) return {};
  return [function = held(*function)](std::uint64_t count) {
    const py::gil_scoped_acquire gil;
    call(*function, count);
  };
}

worker::OwnState own_state_of(const std::pair<py::function, py::function>& functions) {
  worker::OwnState state;
  state.capture = [function = held(functions.first)] {
    const py::gil_scoped_acquire gil;
    const auto [tensors, words] = call(*function).cast<std::pair<py::dict, std::string>>();
    worker::OwnState::Captured captured;
    for (const auto& [name, tensor] : tensors)
      captured.tensors.emplace_back(py::cast<std::string>(name), py::cast<at::Tensor>(tensor));
    captured.text = words;
    return captured;
  };
  state.restore = [function = held(functions.second)](const worker::OwnState::Captured& captured) {
    const py::gil_scoped_acquire gil;
    py::dict tensors;
    for (const auto& [name, tensor] : captured.tensors) tensors[py::str(name)] = tensor;
    call(*function, tensors, captured.text);
    return Status();
  };
  return state;
}

std::unique_ptr<optim::Optimizer> steered(const OptimizerForm& form, const std::shared_ptr<train::Steering>& steering) {
  std::unique_ptr<optim::Optimizer> made = optimizer_of(form);
  if (!std::holds_alternative<NamedOptimizerForm>(form)) return made;
  return std::make_unique<train::SteeredOptimizer>(std::move(made), steering);
}

}  // namespace

train::TrainingOptions training_options_of(const PyTrainingOptions& given,
                                           const std::shared_ptr<train::Steering>& steering) {
  train::TrainingOptions options;
  if (given.criterion) options.criterion = criterion_of(*given.criterion);
  options.optimizer = steered(given.optimizer, steering);
  if (given.average_optim && options.optimizer && options.optimizer->state_names().empty())
    throw py::value_error(
        "average_optim=True needs an optimizer of torch.optim: ravnest does not know the state of others");
  options.pipeline.schedule = accepted(stage::parse_schedule(given.schedule));
  options.pipeline.window = given.window;
  options.seed = given.seed;
  options.codec = accepted(codec::parse_codec(given.compression));
  options.pipeline.recompute = given.recompute;
  options.update_frequency = given.update_frequency;
  options.microbatches = given.microbatches;
  options.pipeline.reduce_factor = given.reduce_factor;
  options.pipeline.average = accepted(stage::parse_average_mode(given.average));
  if (given.nesterov) options.pipeline.outer = {true, given.nesterov->first, given.nesterov->second};
  options.pipeline.average_optimizer = given.average_optim;
  options.clip_value = given.clip_value;
  options.clip_norm = given.clip_norm;
  options.on_epochs = counter_of(given.on_epochs);
  options.on_update = counter_of(given.on_update);
  options.settings = given.settings;
  options.record.loss_file = given.loss_file;
  options.record.accuracy_file = given.accuracy_file;
  options.scheduled = given.scheduled;
  if (given.criterion_state) options.criterion_state = own_state_of(*given.criterion_state);
  options.checkpoints.folder = given.checkpoint;
  options.checkpoints.every = accepted(checkpoint::parse_interval(given.checkpoint_every));
  options.checkpoints.retention = {given.checkpoint_keep, given.checkpoint_keep_every, given.checkpoint_best};
  options.checkpoints.resume = given.resume;
  options.checkpoints.environment = given.environment;
  return options;
}

void bind_training_options(py::module_& module) {
  py::class_<PyTrainingOptions>(module, "TrainingOptions")
      .def(py::init<>())
      .def_readwrite("criterion", &PyTrainingOptions::criterion)
      .def_readwrite("optimizer", &PyTrainingOptions::optimizer)
      .def_readwrite("schedule", &PyTrainingOptions::schedule)
      .def_readwrite("window", &PyTrainingOptions::window)
      .def_readwrite("seed", &PyTrainingOptions::seed)
      .def_readwrite("compression", &PyTrainingOptions::compression)
      .def_readwrite("recompute", &PyTrainingOptions::recompute)
      .def_readwrite("update_frequency", &PyTrainingOptions::update_frequency)
      .def_readwrite("microbatches", &PyTrainingOptions::microbatches)
      .def_readwrite("reduce_factor", &PyTrainingOptions::reduce_factor)
      .def_readwrite("average", &PyTrainingOptions::average)
      .def_readwrite("nesterov", &PyTrainingOptions::nesterov)
      .def_readwrite("average_optim", &PyTrainingOptions::average_optim)
      .def_readwrite("clip_value", &PyTrainingOptions::clip_value)
      .def_readwrite("clip_norm", &PyTrainingOptions::clip_norm)
      .def_readwrite("on_epochs", &PyTrainingOptions::on_epochs)
      .def_readwrite("on_update", &PyTrainingOptions::on_update)
      .def_readwrite("loss_file", &PyTrainingOptions::loss_file)
      .def_readwrite("accuracy_file", &PyTrainingOptions::accuracy_file)
      .def_readwrite("settings", &PyTrainingOptions::settings)
      .def_readwrite("scheduled", &PyTrainingOptions::scheduled)
      .def_readwrite("criterion_state", &PyTrainingOptions::criterion_state)
      .def_readwrite("checkpoint", &PyTrainingOptions::checkpoint)
      .def_readwrite("checkpoint_every", &PyTrainingOptions::checkpoint_every)
      .def_readwrite("checkpoint_keep", &PyTrainingOptions::checkpoint_keep)
      .def_readwrite("checkpoint_keep_every", &PyTrainingOptions::checkpoint_keep_every)
      .def_readwrite("checkpoint_best", &PyTrainingOptions::checkpoint_best)
      .def_readwrite("resume", &PyTrainingOptions::resume)
      .def_readwrite("environment", &PyTrainingOptions::environment);
}

}  // namespace ravnest::python
