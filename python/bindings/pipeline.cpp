// Clusters of threads, for ravnest.training.local_cluster.
#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "callbacks.h"
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
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
  }
  std::vector<wire::Report> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<wire::Report> reports_;
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

std::unique_ptr<Cluster> open_cluster(const std::vector<const graph::Engine*>& engines, const py::function& criterion,
                                      const py::list& optimizers, const std::string& schedule, int window,
                                      std::uint64_t seed, const std::string& codec, bool recompute,
                                      const std::vector<std::string>& addresses, bool tls) {
  LocalClusterOptions options;
  options.schedule = unwrap(stage::parse_schedule(schedule));
  options.window = window;
  options.worker.seed = seed;
  options.worker.codec = unwrap(codec::parse_codec(codec));
  options.worker.recompute = recompute;
  options.worker.criterion = criterion_of(criterion);
  options.endpoints = open_endpoints(addresses, tls);
  std::vector<std::unique_ptr<optim::Optimizer>> own;
  for (const py::handle& each : optimizers) {
    if (each.is_none()) {
      own.push_back(nullptr);
    } else if (py::isinstance<py::function>(each)) {
      own.push_back(optimizer_of(each.cast<py::function>()));
    } else {
      const auto [name, settings] = each.cast<std::pair<std::string, optim::Options>>();
      own.push_back(accepted(optim::make_optimizer(name, settings)));
    }
  }
  auto result = std::make_unique<Cluster>();
  options.on_report = [reports = result->reports](wire::Report report) { reports->add(std::move(report)); };
  std::vector<graph::Engine> copies;
  for (const graph::Engine* engine : engines) copies.push_back(unwrap(engine->on(engine->device())));
  result->cluster = unwrap(LocalCluster::open(std::move(copies), std::move(own), std::move(options)));
  return result;
}

void offer(Cluster& cluster, const std::string& kind, std::uint64_t batch, std::uint32_t part, std::uint32_t parts,
           double weight, bool update, const std::vector<at::Tensor>& inputs, double timeout_s) {
  const stage::Offer offered{.kind = kind == "train"      ? wire::PassKind::kTrain
                                     : kind == "validate" ? wire::PassKind::kValidate
                                                          : wire::PassKind::kPredict,
                             .batch = batch,
                             .part = part,
                             .parts = parts,
                             .weight = weight,
                             .update = update};
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
  py::class_<Cluster>(module, "Cluster")
      .def(py::init(&open_cluster))
      .def("offer", &offer)
      .def("drain",
           [](Cluster& cluster, double timeout_s) {
             const py::gil_scoped_release release;
             unwrap(cluster.cluster->drain(in_seconds(timeout_s)));
           })
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
      .def("stop",
           [](Cluster& cluster, std::size_t stage, std::string reason) {
             cluster.cluster->stop(static_cast<int>(checked(cluster, stage)), std::move(reason));
           })
      .def("reports", &reports_of)
      .def("statistics", &statistics_of)
      .def("parameters",
           [](Cluster& cluster, std::size_t stage) {
             return named_tensors(cluster.cluster->engine(checked(cluster, stage)).parameters());
           })
      .def("buffers", [](Cluster& cluster, std::size_t stage) {
        return named_tensors(cluster.cluster->engine(checked(cluster, stage)).buffers());
      });
}

}  // namespace ravnest::python
