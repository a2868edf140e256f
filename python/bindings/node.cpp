// A node of a plan, for ravnest.training.node.
#include "ravnest/train/node/node.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "loop.h"
#include "ravnest/base/words/nearest.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/stage/routes.h"
#include "ravnest/train/loop/loop.h"
#include "ravnest/worker/tensors.h"
#include "training_options.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using train::Node;

// Where others are told of failures while this process says what is wrong; it does not end before they are told.
const std::shared_ptr<Background>& background() {
  static const auto own = std::make_shared<Background>();
  return own;
}

struct PyNode {
  std::unique_ptr<report::Progress> progress;
  std::shared_ptr<train::Steering> steering = std::make_shared<train::Steering>();
  optim::Optimizer* optimizer = nullptr;  // the node's
  std::unique_ptr<Node> node;
  std::shared_ptr<train::Position> position = std::make_shared<train::Position>();

  PyNode() = default;
  PyNode(const PyNode&) = delete;
  PyNode& operator=(const PyNode&) = delete;
  // Its thread may be about to call Python.
  ~PyNode() {
    const py::gil_scoped_release release;
    node.reset();
  }
};

std::unique_ptr<PyNode> open_node(train::NodeOptions options) {
  options.background = background();
  options.log = Logger(options.name, Level::kInfo);
  auto own = std::make_unique<PyNode>();
  const py::gil_scoped_release release;
  own->node = unwrap(Node::open(std::move(options)));
  return own;
}

void withdraw(train::NodeOptions options, const std::string& reason, bool interrupted) {
  options.background = background();
  const py::gil_scoped_release release;
  (void)Node::withdraw(options, {reason, interrupted});  // who can't be told will see that it is not there
}

void configure(PyNode& own, const PyTrainingOptions& given, bool shows_progress) {
  train::TrainingOptions options = training_options_of(given, own.steering);
  own.optimizer = options.optimizer.get();
  if (shows_progress) {
    report::ProgressOptions progress;
    if (::isatty(STDERR_FILENO) == 1) progress.columns = report::terminal_columns(STDERR_FILENO);
    own.progress = std::make_unique<report::Progress>(std::cerr, std::move(progress));
    options.record.progress = own.progress.get();
  }
  own.node->configure(std::move(options));
}

train::Feeder feeder_of(PyNode& own) { return {*own.node, *own.position, poll_signals}; }

train::Sweep purpose_of(bool validation) { return validation ? train::Sweep::kValidation : train::Sweep::kEvaluation; }

train::LoopSource loop_source_of(PyBatchSource* source) {
  if (source == nullptr) return {};
  return {source, &source->counts()};
}

// (seconds, samples)
std::pair<double, std::uint64_t> train_epochs(PyNode& own, PyBatchSource& training,
                                              std::optional<PyBatchSource*> validation, std::uint64_t epochs,
                                              std::uint64_t val_freq) {
  const py::gil_scoped_release release;
  train::Feeder feeder = feeder_of(own);
  const train::Trained trained = unwrap(train::train_epochs(
      feeder, {loop_source_of(&training), loop_source_of(validation.value_or(nullptr)), epochs, val_freq}));
  return {trained.seconds, trained.samples};
}

void sweep(PyNode& own, PyBatchSource& source, bool validation) {
  const py::gil_scoped_release release;
  train::Feeder feeder = feeder_of(own);
  unwrap(train::sweep(feeder, loop_source_of(&source), purpose_of(validation)));
}

void train_on(PyNode& own, const py::list& inputs, std::uint64_t digest) {
  train::SourceBatch batch{model_inputs_of(inputs), digest};
  const py::gil_scoped_release release;
  unwrap(feeder_of(own).train(std::move(batch)));
}

void validate(PyNode& own, const py::list& inputs, std::uint64_t digest, bool validation) {
  train::SourceBatch batch{model_inputs_of(inputs), digest};
  const py::gil_scoped_release release;
  unwrap(feeder_of(own).validate(std::move(batch), purpose_of(validation)));
}

// The outputs, flat.
py::list predict(PyNode& own, const py::list& inputs) {
  std::vector<at::Tensor> tensors = model_inputs_of(inputs);
  const std::vector<wire::Tensor> outputs = [&] {
    const py::gil_scoped_release release;
    return unwrap(feeder_of(own).predict(std::move(tensors)));
  }();
  py::list flat;
  for (const wire::Tensor& output : outputs) flat.append(unwrap(worker::from_wire(output, c10::kCPU)).clone());
  return flat;
}

py::dict to_dict(const wire::Closed& closed) {
  py::dict result;
  result["accuracy"] = closed.accuracy;
  result["goes_on"] = closed.goes_on;
  return result;
}

wire::Closed finish(PyNode& own, bool save, const std::string& run, bool goes_on) {
  const py::gil_scoped_release release;
  return unwrap(own.node->finish({save, run, own.position->epoch}, goes_on, poll_signals));
}

wire::Closed serve(PyNode& own) {
  const py::gil_scoped_release release;
  return unwrap(own.node->serve(poll_signals));
}

ir::Signature signature(const PyNode& own, bool train) {
  const ir::StageInfo info = worker::stage_of(own.node->engine());
  return train ? info.train_call : info.eval_call;
}

}  // namespace

void bind_node(py::module_& module) {
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    const py::gil_scoped_release release;
    background()->finish();
  }));
  py::class_<train::NodeOptions>(module, "NodeOptions")
      .def(py::init<>())
      .def_readwrite("name", &train::NodeOptions::name)
      .def_readwrite("node_data", &train::NodeOptions::node_data)
      .def_readwrite("trained", &train::NodeOptions::trained)
      .def_readwrite("own_stage", &train::NodeOptions::own_stage)
      .def_readwrite("software", &train::NodeOptions::software)
      .def_readwrite("device", &train::NodeOptions::device)
      .def_readwrite("insecure", &train::NodeOptions::insecure);
  bind_training_options(module);
  module.def("withdraw", &withdraw, py::arg("options"), py::arg("reason"), py::arg("interrupted"));
  // Where the planned stage of that node is.
  module.def(
      "stage_archive",
      [](const std::string& node_data, const std::string& name) {
        const plan::PlanHere here = unwrap(plan::read_plan_here(node_data));
        return (plan::folder_of(here, unwrap(plan::node_named(here.plan, name))) / "submod.pt").string();
      },
      py::arg("node_data"), py::arg("name"));
  // Nodes of the plan with the same host as that one, itself included.
  module.def(
      "nodes_beside",
      [](const std::string& node_data, const std::string& name) {
        const plan::PlanHere here = unwrap(plan::read_plan_here(node_data));
        const int own = unwrap(plan::node_named(here.plan, name));
        int count = 0;
        for (const plan::PoolNode& node : here.plan.pool.nodes)
          count += node.address.host == here.plan.pool.nodes[static_cast<std::size_t>(own)].address.host ? 1 : 0;
        return count;
      },
      py::arg("node_data"), py::arg("name"));
  // "; did you mean NAME?", or nothing.
  module.def(
      "did_you_mean",
      [](const std::string& written, const std::vector<std::string>& names) {
        return did_you_mean(written, std::vector<std::string_view>(names.begin(), names.end()));
      },
      py::arg("written"), py::arg("names"));
  py::class_<PyNode>(module, "Node")
      .def(py::init(&open_node), py::arg("options"))
      .def("configure", &configure, py::arg("options"), py::kw_only(), py::arg("shows_progress"))
      .def_property_readonly("name", [](const PyNode& own) { return own.node->name(); })
      .def_property_readonly("role", [](const PyNode& own) { return std::string(own.node->role()); })
      .def_property_readonly("cluster", [](const PyNode& own) { return own.node->cluster(); })
      .def_property_readonly("clusters", [](const PyNode& own) { return own.node->plan().clusters.size(); })
      .def_property_readonly("stage", [](const PyNode& own) { return own.node->stage(); })
      .def_property_readonly("stages", [](const PyNode& own) { return own.node->stages(); })
      .def_property_readonly("plan", [](const PyNode& own) { return own.node->plan().id; })
      .def_property_readonly("batch", [](const PyNode& own) { return own.node->plan().batch; })
      .def(
          "name_of", [](const PyNode& own, int stage) { return own.node->name_of(stage); }, py::arg("stage"))
      .def(
          "in_spec", [](const PyNode& own, bool train) { return signature(own, train).in_spec; }, py::arg("train"))
      .def(
          "out_spec", [](const PyNode& own, bool train) { return signature(own, train).out_spec; }, py::arg("train"))
      .def(
          "arg_names", [](const PyNode& own, bool train) { return signature(own, train).argument_names; },
          py::arg("train"))
      .def("parameters", [](const PyNode& own) { return named_tensors(own.node->engine().parameters()); })
      .def("buffers", [](const PyNode& own) { return named_tensors(own.node->engine().buffers()); })
      .def(
          "set_option",
          [](PyNode& own, std::size_t group, std::string name, optim::Option value) {
            own.steering->set(group, std::move(name), std::move(value));
          },
          py::arg("group"), py::arg("name"), py::arg("value"))
      .def("optimizer_state", [](const PyNode& own) { return own.optimizer ? state_of(*own.optimizer) : py::dict(); })
      .def(
          "begin", [](PyNode& own, const std::string& call) { unwrap(own.node->begin(call)); }, py::arg("call"))
      .def("serve", [](PyNode& own) { return to_dict(serve(own)); })
      .def_property_readonly("position", [](const PyNode& own) { return own.position; })
      .def("train_epochs", &train_epochs, py::arg("training"), py::arg("validation"), py::kw_only(), py::arg("epochs"),
           py::arg("val_freq"))
      .def("sweep", &sweep, py::arg("source"), py::kw_only(), py::arg("validation"))
      .def("train_on", &train_on, py::arg("inputs"), py::kw_only(), py::arg("digest"))
      .def("validate", &validate, py::arg("inputs"), py::kw_only(), py::arg("digest"), py::arg("validation"))
      .def("predict", &predict, py::arg("inputs"))
      .def("end_sweep", [](PyNode& own) { unwrap(feeder_of(own).end_sweep()); })
      .def("end_epoch", [](PyNode& own) { feeder_of(own).end_epoch(); })
      .def("drain",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             unwrap(own.node->drain(poll_signals));
           })
      .def(
          "warn", [](const PyNode& own, const std::string& line) { own.node->warn(line); }, py::arg("line"))
      .def(
          "stop_at_nan", [](PyNode& own, bool stop) { own.node->record().stop_at_nan(stop); }, py::arg("stop"))
      .def("average",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             unwrap(own.node->average(poll_signals));
           })
      .def(
          "finish",
          [](PyNode& own, bool save, const std::string& run, bool goes_on) {
            return to_dict(finish(own, save, run, goes_on));
          },
          py::kw_only(), py::arg("save"), py::arg("run"), py::arg("goes_on") = false)
      .def(
          "stop",
          [](PyNode& own, const std::string& reason, bool interrupted) {
            own.node->stop({reason, interrupted});
          },
          py::arg("reason"), py::arg("interrupted"))
      .def("close",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             own.node->close();
           })
      .def("save", [](PyNode& own) { unwrap(own.node->save()); })
      .def("accuracy", [](const PyNode& own) { return own.node->record().accuracy(); })
      .def("samples_trained", [](const PyNode& own) { return own.node->record().samples_trained(); })
      .def("rounds",
           [](const PyNode& own) {
             const average::AveragerStatistics rounds = own.node->rounds().value_or(average::AveragerStatistics());
             py::dict facts;
             facts["rounds"] = rounds.rounds;
             facts["attempts"] = rounds.attempts;
             facts["ignored"] = rounds.ignored;
             facts["bytes"] = rounds.bytes;
             facts["exchanging_s"] = rounds.exchanging_s;
             return facts;
           })
      .def("bytes_sent", [](const PyNode& own) { return own.node->work().bytes_sent; })
      .def(
          "summary",
          [](const PyNode& own, double seconds, std::uint64_t samples, std::uint64_t epochs) {
            return report::summary_text(own.node->run_summary(seconds, samples, epochs));
          },
          py::kw_only(), py::arg("seconds"), py::arg("samples"), py::arg("epochs"));
}

}  // namespace ravnest::python
