// A node of a plan, for ravnest.training.node.
#include "ravnest/train/node/node.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "loop.h"
#include "ravnest/base/words/nearest.h"
#include "ravnest/plan/files/local_plan.h"
#include "training_process.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using train::Node;

// Where others are told of failures while this process says what is wrong; it does not end before they are told.
const std::shared_ptr<Background>& background() {
  static const auto own = std::make_shared<Background>();
  return own;
}

class PyNode final : public TrainingProcess {
 public:
  ~PyNode() override {
    const py::gil_scoped_release release;
    node.reset();
  }

  train::BatchSink& sink() override { return *node; }
  const graph::Engine& engine() const override { return node->engine(); }

  std::unique_ptr<Node> node;
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
  own.node->configure(own.options_of(given, shows_progress));
}

py::dict to_dict(const wire::Closed& closed) {
  py::dict result;
  result["accuracy"] = closed.accuracy;
  result["goes_on"] = closed.goes_on;
  result["ended_early"] = closed.ended_early;
  return result;
}

wire::Closed finish(PyNode& own, bool save, const std::string& run, bool goes_on) {
  const py::gil_scoped_release release;
  return unwrap(own.node->finish({save, run, own.position->epoch}, goes_on, poll_signals));
}

wire::Closed finish_early(PyNode& own, const std::string& run) {
  const py::gil_scoped_release release;
  return unwrap(own.node->finish_early({false, run, own.position->epoch}, poll_signals));
}

// What the run goes on from: the update of the checkpoint; 0: it begins anew.
std::uint64_t begin_run(PyNode& own, const std::map<std::string, std::string>& settings) {
  const py::gil_scoped_release release;
  unwrap(own.node->begin_run(settings, poll_signals));
  const auto& resumed = own.node->resumed();
  if (!resumed) return 0;
  own.position->go_on = train::go_on_from(*resumed);
  return resumed->updates;
}

wire::Closed serve(PyNode& own) {
  const py::gil_scoped_release release;
  return unwrap(own.node->serve(poll_signals));
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
      .def_readwrite("custom_stage", &train::NodeOptions::custom_stage)
      .def_readwrite("software", &train::NodeOptions::software)
      .def_readwrite("device", &train::NodeOptions::device)
      .def_readwrite("insecure", &train::NodeOptions::insecure);
  bind_training_options(module);
  // Until others are told of all failures; what a signal's handler raises meanwhile ends that. `hurry`, which a handler
  // may call, lets nobody wait for peers that are not there.
  module.def("finish_telling", [] {
    for (;;) {
      {
        const py::gil_scoped_release release;
        if (background()->done_by(SystemClock().now() + std::chrono::milliseconds(50))) return;
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  });
  module.def("hurry", [] { background()->hurry(); });
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
  py::class_<PyNode, TrainingProcess>(module, "Node")
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
          "begin", [](PyNode& own, const std::string& call) { unwrap(own.node->begin(call)); }, py::arg("call"))
      .def("begin_run", &begin_run, py::arg("settings"))
      .def(
          "want_end", [](PyNode& own, const std::string& why) { return own.node->want_end(why); }, py::arg("why"))
      .def("end_wanted", [](const PyNode& own) { return own.node->end_wanted(); })
      .def_property_readonly("last_checkpoint", [](const PyNode& own) { return own.node->last_checkpoint(); })
      .def("serve", [](PyNode& own) { return to_dict(serve(own)); })
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
          "finish_early", [](PyNode& own, const std::string& run) { return to_dict(finish_early(own, run)); },
          py::kw_only(), py::arg("run"))
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
