// Clusters of threads, for ravnest.training.local_cluster.
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "callbacks.h"
#include "ravnest/base/mutex.h"
#include "ravnest/cluster/local_cluster.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/address.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using cluster::LocalCluster;
using cluster::LocalClusterOptions;

TimePoint in_seconds(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// What came back from the leaf, until Python asks for it.
class Reports {
 public:
  void add(wire::Report report) {
    const MutexLock lock(mutex_);
    reports_.push_back(std::move(report));
  }
  std::vector<wire::Report> take() {
    const MutexLock lock(mutex_);
    return std::exchange(reports_, {});
  }

 private:
  Mutex mutex_;
  std::vector<wire::Report> reports_ RAVNEST_GUARDED_BY(mutex_);
};

struct Cluster {
  std::shared_ptr<Reports> reports = std::make_shared<Reports>();
  std::unique_ptr<LocalCluster> cluster;

  Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  // Its stages may be about to call Python.
  ~Cluster() {
    const py::gil_scoped_release release;
    cluster.reset();
  }
};

std::size_t checked(const Cluster& cluster, std::size_t stage) {
  if (stage < cluster.cluster->size()) return stage;
  throw py::index_error(text("there is no stage ", stage, "; there are ", cluster.cluster->size()));
}

// Endpoints on this machine's loopback, as separate machines would have them.
std::vector<std::unique_ptr<transport::Endpoint>> open_endpoints(const std::vector<std::string>& addresses, bool tls) {
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  const identity::Authority authority = unwrap(identity::Authority::create("local"));
  std::vector<transport::tcp::Peer> everyone;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    everyone.push_back({text("stage_", i), unwrap(parse_address(addresses[i]))});
  for (std::size_t i = 0; i < everyone.size(); ++i) {
    transport::tcp::Options options;
    options.name = everyone[i].name;
    options.plan = "local";
    options.listen = everyone[i].address;
    options.log = Logger(options.name, Level::kWarning);
    for (const transport::tcp::Peer& peer : everyone) {
      if (peer.name != options.name) options.peers.push_back(peer);
    }
    if (tls)
      options.identity = identity::StoredIdentity{unwrap(authority.issue(options.name)), authority.certificate()};
    else
      options.insecure = transport::tcp::Insecure::kOnLoopback;
    endpoints.push_back(unwrap(transport::tcp::open(std::move(options))));
  }
  return endpoints;
}

// How a cluster of threads trains, as Python says it; LocalClusterOptions says what the fields mean.
struct PyClusterOptions {
  std::optional<py::function> criterion;  // callbacks.h
  std::vector<OptimizerForm> optimizers;  // one per stage
  std::string schedule = "async";
  int window = 0;
  std::uint32_t microbatches = 1;
  std::uint64_t seed = 0;
  std::string compression = "none";
  bool recompute = false;
  std::vector<std::string> addresses;  // of the stages, which then talk over sockets
  bool tls = false;
};

std::unique_ptr<Cluster> open_cluster(const std::vector<const graph::Engine*>& stages, const PyClusterOptions& given) {
  LocalClusterOptions options;
  options.schedule = unwrap(stage::parse_schedule(given.schedule));
  options.window = given.window;
  options.microbatches = given.microbatches;
  options.worker.seed = given.seed;
  options.worker.codec = unwrap(codec::parse_codec(given.compression));
  options.worker.recompute = given.recompute;
  if (given.criterion) options.worker.criterion = criterion_of(*given.criterion);
  options.endpoints = open_endpoints(given.addresses, given.tls);
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  for (const OptimizerForm& form : given.optimizers) optimizers.push_back(optimizer_of(form));
  auto result = std::make_unique<Cluster>();
  options.on_report = [reports = result->reports](wire::Report report) { reports->add(std::move(report)); };
  std::vector<graph::Engine> copies;
  for (const graph::Engine* stage : stages) copies.push_back(unwrap(stage->on(stage->device())));
  result->cluster = unwrap(LocalCluster::open(std::move(copies), std::move(optimizers), std::move(options)));
  return result;
}

Result<wire::PassKind> kind_of(const std::string& name) {
  if (name == "train") return wire::PassKind::kTrain;
  if (name == "validate") return wire::PassKind::kValidate;
  if (name == "predict") return wire::PassKind::kPredict;
  return invalid("there is no kind of pass \"", name, "\": only train, validate and predict");
}

void offer(Cluster& cluster, const std::string& kind, const std::vector<at::Tensor>& inputs, std::uint64_t batch,
           bool update, double timeout_s) {
  const stage::Offer offered{.kind = accepted(kind_of(kind)), .batch = batch, .update = update};
  const py::gil_scoped_release release;
  unwrap(cluster.cluster->offer(offered, inputs, in_seconds(timeout_s)));
}

py::list reports_of(Cluster& cluster) {
  py::list result;
  for (const wire::Report& report : cluster.reports->take()) {
    py::dict each;
    each["pass"] = report.pass;
    each["loss"] = report.loss;
    each["samples"] = report.samples;
    each["correct"] = report.correct;
    py::list outputs;
    for (const wire::Tensor& output : report.outputs) outputs.append(unwrap(worker::from_wire(output, c10::kCPU)));
    each["outputs"] = outputs;
    result.append(each);
  }
  return result;
}

py::dict statistics_of(Cluster& cluster, std::size_t stage) {
  const cluster::DriverStatistics statistics = cluster.cluster->statistics(checked(cluster, stage));
  py::dict result;
  result["forwards"] = statistics.counts.forwards;
  result["backwards"] = statistics.counts.backwards;
  result["updates"] = statistics.counts.updates;
  result["staleness_mean"] = statistics.counts.backwards == 0 ? 0.0
                                                              : static_cast<double>(statistics.counts.staleness_sum) /
                                                                    static_cast<double>(statistics.counts.backwards);
  result["staleness_most"] = statistics.counts.staleness_most;
  result["in_flight_most"] = statistics.counts.in_flight_most;
  result["versions_most"] = cluster.cluster->worker(stage).versions_most();
  result["forward_s"] = statistics.forward_s;
  result["backward_s"] = statistics.backward_s;
  result["update_s"] = statistics.update_s;
  result["running_s"] = statistics.running_s;
  return result;
}

}  // namespace

void bind_pipeline(py::module_& module) {
  py::class_<PyClusterOptions>(module, "ClusterOptions")
      .def(py::init<>())
      .def_readwrite("criterion", &PyClusterOptions::criterion)
      .def_readwrite("optimizers", &PyClusterOptions::optimizers)
      .def_readwrite("schedule", &PyClusterOptions::schedule)
      .def_readwrite("window", &PyClusterOptions::window)
      .def_readwrite("microbatches", &PyClusterOptions::microbatches)
      .def_readwrite("seed", &PyClusterOptions::seed)
      .def_readwrite("compression", &PyClusterOptions::compression)
      .def_readwrite("recompute", &PyClusterOptions::recompute)
      .def_readwrite("addresses", &PyClusterOptions::addresses)
      .def_readwrite("tls", &PyClusterOptions::tls);
  py::class_<Cluster>(module, "Cluster")
      .def(py::init(&open_cluster), py::arg("stages"), py::arg("options"))
      .def("offer", &offer, py::arg("kind"), py::arg("inputs"), py::kw_only(), py::arg("batch"), py::arg("update"),
           py::arg("timeout_s"))
      .def(
          "drain",
          [](Cluster& cluster, double timeout_s) {
            const py::gil_scoped_release release;
            unwrap(cluster.cluster->drain(in_seconds(timeout_s)));
          },
          py::arg("timeout_s"))
      .def("close",
           [](Cluster& cluster) {
             const py::gil_scoped_release release;
             unwrap(cluster.cluster->close());
           })
      .def("end",
           [](Cluster& cluster) {
             const py::gil_scoped_release release;
             cluster.cluster->end();
           })
      .def(
          "stop",
          [](Cluster& cluster, std::size_t stage, std::string reason) {
            cluster.cluster->stop(static_cast<int>(checked(cluster, stage)), std::move(reason));
          },
          py::arg("stage"), py::arg("reason"))
      .def("reports", &reports_of)
      .def("statistics", &statistics_of, py::arg("stage"))
      .def(
          "parameters",
          [](Cluster& cluster, std::size_t stage) {
            return named_tensors(cluster.cluster->engine(checked(cluster, stage)).parameters());
          },
          py::arg("stage"))
      .def(
          "buffers",
          [](Cluster& cluster, std::size_t stage) {
            return named_tensors(cluster.cluster->engine(checked(cluster, stage)).buffers());
          },
          py::arg("stage"));
}

}  // namespace ravnest::python
