#include "ravnest/plan/plan.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "ravnest/codec/codec.h"
#include "ravnest/graph/cost/profile.h"
#include "ravnest/plan/clusterize/clusterize.h"
#include "ravnest/plan/files/write.h"
#include "ravnest/plan/show/explain.h"
#include "ravnest/plan/show/svg.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

using graph::Engine;
using plan::Plan;

struct Request {
  std::optional<std::string> balance;
  int min_cluster_size = 2;
  bool use_all = false;
  std::uint64_t seed = 0;
  double optimizer_state = 2;
  int average_every = 100;
  std::string compression = "none";
  std::string node_data;
  std::string pool_file;
  bool write = true;
};

// What the user can mend is a ValueError, a missing file a FileNotFoundError.
template <class T>
T planned(Result<T> result) {
  if (result.status().code() == Code::kInvalid) throw py::value_error(result.status().message());
  if (result.status().code() == Code::kNotFound) {
    PyErr_SetString(PyExc_FileNotFoundError, result.status().message().c_str());
    throw py::error_already_set();
  }
  return unwrap(std::move(result));
}

plan::ClusterizeOptions options_of(const Request& request) {
  plan::ClusterizeOptions options;
  if (request.balance) options.form.balance = planned(plan::parse_balance(*request.balance));
  options.form.min_cluster_size = request.min_cluster_size;
  options.form.use_all = request.use_all;
  options.form.seed = request.seed;
  options.form.training.optimizer_state = request.optimizer_state;
  options.form.training.updates_per_round = request.average_every;
  options.form.training.sent_share = codec::encoded_share(planned(codec::parse_codec(request.compression)));
  options.node_data = request.node_data;
  options.pool_file = request.pool_file;
  options.write = request.write;
  return options;
}

// With inputs the model's memory is measured by a pass over them, else it is estimated from shapes.
Plan clusterize(const Engine& engine, const std::optional<py::list>& inputs, const Request& request) {
  plan::ClusterizeOptions options = options_of(request);
  std::vector<c10::IValue> values;
  if (inputs) {
    for (const py::handle& input : *inputs) values.push_back(to_ivalue(input));
  }
  bool interrupted = false;
  options.form.progress = [&](double) {
    const py::gil_scoped_acquire acquire;
    interrupted = interrupted || PyErr_CheckSignals() != 0;
    return !interrupted;
  };
  Result<Plan> made = invalid("not planned");
  {
    const py::gil_scoped_release release;
    const ir::Model model = engine.model();
    const Result<graph::Profile> profile = inputs ? graph::profile_run(engine, values) : graph::profile_shapes(model);
    made = profile.ok() ? plan::clusterize(model, *profile, options) : Result<Plan>(profile.status());
  }
  if (interrupted) throw py::error_already_set();
  return planned(std::move(made));
}

py::dict memory_of(const plan::StageMemory& memory) {
  py::dict result;
  result["weights"] = memory.weights;
  result["gradients"] = memory.gradients;
  result["optimizer"] = memory.optimizer;
  result["versions"] = memory.versions;
  result["activations"] = memory.activations;
  result["process"] = memory.process;
  result["total"] = memory.total();
  return result;
}

py::dict stage_of(const Plan& plan, int c, int s) {
  const plan::PlannedStage& stage = plan.clusters[c].stages[s];
  const plan::PoolNode& node = plan.pool.nodes[stage.node];
  py::dict result;
  result["node"] = stage.node;
  result["name"] = plan::node_name(stage.node);
  result["address"] = to_string(node.address);
  result["cluster"] = c;
  result["stage"] = s;
  result["role"] = std::string(plan::role(s, static_cast<int>(plan.clusters[c].stages.size())));
  result["begin"] = stage.begin;
  result["end"] = stage.end;
  result["first_operator"] = stage.first_operator;
  result["module"] = stage.module;
  result["parameters"] = stage.parameters;
  result["trainable"] = stage.trainable;
  result["ram"] = node.ram_gb;
  result["memory"] = memory_of(stage.memory);
  result["compute_s"] = stage.prediction.compute_s;
  result["send_s"] = stage.prediction.send_s;
  result["receive_s"] = stage.prediction.receive_s;
  result["bytes_out"] = stage.prediction.bytes_out;
  result["bytes_in"] = stage.prediction.bytes_in;
  result["out_bytes_per_s"] = stage.prediction.out_bytes_per_s;
  result["in_bytes_per_s"] = stage.prediction.in_bytes_per_s;
  result["versions"] = stage.prediction.versions;
  result["staleness"] = stage.prediction.staleness;
  py::dict rings;
  for (const plan::RingPart& part : stage.rings) rings[py::int_(part.ring)] = part.first_parameter;
  result["ring_ids"] = rings;
  py::dict owners;
  for (const plan::NextOwner& owner : stage.next_owners)
    owners[py::str(to_string(plan.pool.nodes[owner.node].address))] = owner.first_parameter;
  result["param_addresses"] = owners;
  return result;
}

py::list clusters_of(const Plan& plan) {
  py::list clusters;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    py::dict cluster;
    py::list stages;
    for (std::size_t s = 0; s < plan.clusters[c].stages.size(); ++s)
      stages.append(stage_of(plan, static_cast<int>(c), static_cast<int>(s)));
    cluster["stages"] = stages;
    cluster["samples_per_s"] = plan.clusters[c].samples_per_s;
    cluster["period_s"] = plan.clusters[c].period_s;
    cluster["slowest_stage"] = plan.clusters[c].slowest_stage;
    cluster["window"] = plan.clusters[c].window;
    cluster["limit"] = plan::limit_sentence(plan, static_cast<int>(c));
    clusters.append(cluster);
  }
  return clusters;
}

}  // namespace

void bind_plan(py::module_& module) {
  py::class_<Plan>(module, "Plan")
      .def_readonly("id", &Plan::id)
      .def_readonly("seed", &Plan::seed)
      .def_readonly("batch", &Plan::batch)
      .def_readonly("memory_bytes", &Plan::memory_bytes)
      .def_readonly("samples_per_s", &Plan::samples_per_s)
      .def_readonly("unused", &Plan::unused)
      .def_readonly("spares", &Plan::spares)
      .def_readonly("notes", &Plan::notes)
      .def_property_readonly("balance", [](const Plan& plan) { return std::string(plan::name(plan.balance)); })
      .def("clusters", &clusters_of)
      .def("memory_line", &plan::memory_line)
      .def("node_blocks", &plan::node_blocks)
      .def("explain", &plan::explain)
      .def("svg", &plan::to_svg);
  module.def(
      "read_plan", [](const std::string& node_data) { return planned(plan::read_plan(node_data)); },
      py::arg("node_data"));
  module.def(
      "check_pool", [](const std::string& file) { planned(plan::read_pool(file)); }, py::arg("file"));
  module.def(
      "clusterize",
      [](const Engine& engine, const std::optional<py::list>& inputs, std::optional<std::string> balance,
         int min_cluster_size, std::uint64_t seed, double optimizer_state, int average_every, std::string compression,
         std::string node_data, std::string pool_file, bool write, bool use_all) {
        return clusterize(engine, inputs,
                          {std::move(balance), min_cluster_size, use_all, seed, optimizer_state, average_every,
                           std::move(compression), std::move(node_data), std::move(pool_file), write});
      },
      py::arg("model"), py::arg("inputs"), py::kw_only(), py::arg("balance"), py::arg("min_cluster_size"),
      py::arg("seed"), py::arg("optimizer_state"), py::arg("average_every"), py::arg("compression") = "none",
      py::arg("node_data"), py::arg("pool_file"), py::arg("write") = true, py::arg("use_all") = false);
}

}  // namespace ravnest::python
