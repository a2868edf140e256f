// A node of a plan, for ravnest.training.node.
#include "ravnest/train/node/node.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "callbacks.h"
#include "ravnest/base/nearest.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/stage/routes.h"
#include "ravnest/train/node/labels.h"
#include "ravnest/train/node/steered_optimizer.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using train::Node;

// Whoever waits in C++ still gets Ctrl-C.
Status poll_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return {};
}

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

  PyNode() = default;
  PyNode(const PyNode&) = delete;
  PyNode& operator=(const PyNode&) = delete;
  // Its thread may be about to call Python.
  ~PyNode() {
    const py::gil_scoped_release release;
    node.reset();
  }
};

std::unique_ptr<PyNode> open_node(const std::string& name, const std::string& node_data, const std::string& trained,
                                  const std::string& device, bool insecure, const std::string& software,
                                  const std::string& own_stage) {
  train::NodeOptions options;
  options.name = name;
  options.node_data = node_data;
  options.trained = trained;
  options.software = software;
  options.device = c10::Device(device);
  options.insecure = insecure;
  options.own_stage = own_stage;
  options.background = background();
  options.log = Logger(name, Level::kInfo);
  auto own = std::make_unique<PyNode>();
  const py::gil_scoped_release release;
  own->node = unwrap(Node::open(std::move(options)));
  return own;
}

std::function<void(std::uint64_t)> counter_of(const std::optional<py::function>& function) {
  if (!function) return {};
  return [function = held(*function)](std::uint64_t count) {
    const py::gil_scoped_acquire gil;
    call(*function, count);
  };
}

// An optimizer is a step function, or a name with the options of each group.
void configure(PyNode& own, const std::optional<py::function>& criterion, const py::object& optimizer,
               const std::string& schedule, int window, std::uint64_t seed, const std::string& codec, bool recompute,
               std::uint64_t update_frequency, std::uint32_t microbatches, std::uint64_t reduce_factor,
               const std::string& average, const std::optional<std::pair<double, double>>& nesterov, bool average_optim,
               double clip_value, double clip_norm, const std::optional<py::function>& on_epochs,
               const std::optional<py::function>& on_update, const std::string& loss_file,
               const std::string& accuracy_file, bool shows_progress,
               const std::map<std::string, std::string>& settings) {
  train::TrainingOptions training_options;
  if (criterion) training_options.criterion = criterion_of(*criterion);
  if (py::isinstance<py::function>(optimizer)) {
    training_options.optimizer = optimizer_of(optimizer.cast<py::function>());
  } else if (!optimizer.is_none()) {
    const auto [name, groups] = optimizer.cast<std::pair<std::string, std::vector<py::dict>>>();
    training_options.optimizer = std::make_unique<train::SteeredOptimizer>(
        accepted(optim::make_optimizer(name, {}, groups_of(groups))), own.steering);
  }
  own.optimizer = training_options.optimizer.get();
  training_options.schedule = accepted(stage::parse_schedule(schedule));
  training_options.window = window;
  training_options.seed = seed;
  training_options.codec = accepted(codec::parse_codec(codec));
  training_options.recompute = recompute;
  training_options.update_frequency = update_frequency;
  training_options.microbatches = microbatches;
  training_options.reduce_factor = reduce_factor;
  training_options.average = accepted(stage::parse_average_mode(average));
  if (nesterov) training_options.outer = {true, nesterov->first, nesterov->second};
  training_options.average_optimizer = average_optim;
  if (average_optim && own.optimizer != nullptr && own.optimizer->state_names().empty())
    throw py::value_error(
        "average_optim=True needs an optimizer of torch.optim: ravnest does not know the state of others");
  training_options.clip_value = clip_value;
  training_options.clip_norm = clip_norm;
  training_options.on_epochs = counter_of(on_epochs);
  training_options.on_update = counter_of(on_update);
  training_options.settings = settings;
  training_options.record.loss_file = loss_file;
  training_options.record.accuracy_file = accuracy_file;
  if (shows_progress) {
    report::ProgressOptions options;
    if (::isatty(STDERR_FILENO) == 1) options.columns = report::terminal_columns(STDERR_FILENO);
    own.progress = std::make_unique<report::Progress>(std::cerr, std::move(options));
    training_options.record.progress = own.progress.get();
  }
  own.node->configure(std::move(training_options));
}

wire::PassKind kind_of(const std::string& name) {
  if (name == "train") return wire::PassKind::kTrain;
  if (name == "validate") return wire::PassKind::kValidate;
  return wire::PassKind::kPredict;
}

// Inputs that are not tensors were baked into the graph when it was captured.
std::vector<at::Tensor> tensors_of(const py::list& inputs) {
  std::vector<at::Tensor> tensors;
  for (const py::handle& input : inputs) {
    const c10::IValue value = to_ivalue(input);
    tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
  return tensors;
}

void feed(PyNode& own, const std::string& kind, const py::list& inputs, std::uint64_t epoch, std::uint64_t index,
          std::uint64_t digest) {
  const train::Batch batch{kind_of(kind), tensors_of(inputs), epoch, index, digest};
  const py::gil_scoped_release release;
  unwrap(own.node->feed(batch, poll_signals));
}

py::dict to_dict(const train::Closing& closing) {
  py::dict result;
  result["accuracy"] = closing.accuracy;
  result["more"] = closing.more;
  return result;
}

train::Closing finish(PyNode& own, bool save, const std::string& run, std::uint64_t epochs, bool more) {
  const py::gil_scoped_release release;
  return unwrap(own.node->finish({save, run, epochs}, more, poll_signals));
}

train::Closing serve(PyNode& own) {
  const py::gil_scoped_release release;
  return unwrap(own.node->serve(poll_signals));
}

py::list outputs_of(PyNode& own) {
  py::list result;
  for (const auto& outputs : own.node->record().take_outputs()) {
    py::list flat;
    for (const wire::Tensor& output : outputs) flat.append(unwrap(worker::from_wire(output, c10::kCPU)).clone());
    result.append(flat);
  }
  return result;
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
  module.def("withdraw", [](const std::string& node_data, const std::string& name, bool insecure,
                            const std::string& reason, bool interrupted) {
    train::NodeOptions options;
    options.name = name;
    options.node_data = node_data;
    options.insecure = insecure;
    options.background = background();
    const py::gil_scoped_release release;
    (void)train::Node::withdraw(options, {reason, interrupted});  // who can't be told will see that it is not there
  });
  // Where the planned stage of that node is.
  module.def("stage_archive", [](const std::string& node_data, const std::string& name) {
    const plan::PlanHere here = unwrap(plan::read_plan_here(node_data));
    return (plan::folder_of(here, unwrap(plan::node_named(here.plan, name))) / "submod.pt").string();
  });
  // Nodes of the plan with the same host as that one, itself included.
  module.def("nodes_beside", [](const std::string& node_data, const std::string& name) {
    const plan::PlanHere here = unwrap(plan::read_plan_here(node_data));
    const int own = unwrap(plan::node_named(here.plan, name));
    int count = 0;
    for (const plan::PoolNode& node : here.plan.pool.nodes)
      count += node.address.host == here.plan.pool.nodes[static_cast<std::size_t>(own)].address.host ? 1 : 0;
    return count;
  });
  // "; did you mean NAME?", or nothing.
  module.def("did_you_mean", [](const std::string& written, const std::vector<std::string>& names) {
    return did_you_mean(written, std::vector<std::string_view>(names.begin(), names.end()));
  });
  module.def("label_digest", [](const std::vector<at::Tensor>& labels) { return train::label_digest(labels); });
  py::class_<PyNode>(module, "Node")
      .def(py::init(&open_node))
      .def("configure", &configure)
      .def_property_readonly("name", [](const PyNode& own) { return own.node->name(); })
      .def_property_readonly("role", [](const PyNode& own) { return std::string(own.node->role()); })
      .def_property_readonly("cluster", [](const PyNode& own) { return own.node->cluster(); })
      .def_property_readonly("clusters", [](const PyNode& own) { return own.node->plan().clusters.size(); })
      .def_property_readonly("stage", [](const PyNode& own) { return own.node->stage(); })
      .def_property_readonly("stages", [](const PyNode& own) { return own.node->stages(); })
      .def_property_readonly("plan", [](const PyNode& own) { return own.node->plan().id; })
      .def_property_readonly("batch", [](const PyNode& own) { return own.node->plan().batch; })
      .def("name_of", [](const PyNode& own, int stage) { return own.node->name_of(stage); })
      .def("in_spec", [](const PyNode& own, bool train) { return signature(own, train).in_spec; })
      .def("out_spec", [](const PyNode& own, bool train) { return signature(own, train).out_spec; })
      .def("arg_names", [](const PyNode& own, bool train) { return signature(own, train).argument_names; })
      .def("parameters", [](const PyNode& own) { return named_tensors(own.node->engine().parameters()); })
      .def("buffers", [](const PyNode& own) { return named_tensors(own.node->engine().buffers()); })
      .def("set_option", [](PyNode& own, std::size_t group, std::string name,
                            optim::Option value) { own.steering->set(group, std::move(name), std::move(value)); })
      .def("optimizer_state", [](const PyNode& own) { return own.optimizer ? state_of(*own.optimizer) : py::dict(); })
      .def("begin", [](PyNode& own, const std::string& call) { unwrap(own.node->begin(call)); })
      .def("serve", [](PyNode& own) { return to_dict(serve(own)); })
      .def("feed", &feed)
      .def("end_sweep",
           [](PyNode& own, bool validation) {
             unwrap(own.node->end_sweep(validation ? train::Sweep::kValidation : train::Sweep::kEvaluation));
           })
      .def("drain",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             unwrap(own.node->drain(poll_signals));
           })
      .def("finish_rounds",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             unwrap(own.node->finish_rounds(poll_signals));
           })
      .def("warn", [](const PyNode& own, const std::string& line) { own.node->warn(line); })
      .def("stop_at_nan", [](PyNode& own, bool stop) { own.node->record().stop_at_nan(stop); })
      .def("average",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             unwrap(own.node->average(poll_signals));
           })
      .def("finish", [](PyNode& own, bool save, const std::string& run, std::uint64_t epochs,
                        bool more) { return to_dict(finish(own, save, run, epochs, more)); })
      .def("stop",
           [](PyNode& own, const std::string& reason, bool interrupted) {
             own.node->stop({reason, interrupted});
           })
      .def("close",
           [](PyNode& own) {
             const py::gil_scoped_release release;
             own.node->close();
           })
      .def("save", [](PyNode& own) { unwrap(own.node->save()); })
      .def("begin_training", [](PyNode& own, std::uint64_t first, std::uint64_t epochs,
                                std::uint64_t batches) { own.node->record().begin_training(first, epochs, batches); })
      .def("end_training", [](PyNode& own) { own.node->record().end_training(); })
      .def("outputs", &outputs_of)
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
      .def("bytes_sent", [](const PyNode& own) { return own.node->summary().bytes_sent; })
      .def("summary", [](const PyNode& own, double seconds, std::uint64_t samples, std::uint64_t epochs) {
        return report::summary_text(own.node->run_summary(seconds, samples, epochs));
      });
}

}  // namespace ravnest::python
