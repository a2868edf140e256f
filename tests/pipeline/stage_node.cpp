// One stage of a pipeline as a process: what kill tests, soaks and benchmarks run several of.
//
//   stage_node identities FOLDER       makes FOLDER/stage_K for each stage, with its identity
//   stage_node run FOLDER STAGE        runs that stage until the run is over, and prints one line of JSON
//   stage_node alone FOLDER            the seconds that each stage computes per pass, with no one else around
//
// FOLDER holds run.json (see `Run`), stage_K.pt2 for each stage, and the data as raw float32: inputs.bin and
// targets.bin, or targets as int64 class indices. Batch b is rows b * batch and on, from the start again at the end.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "memory_watch.h"
#include "ravnest/base/file.h"
#include "ravnest/cluster/driver.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/net/address.h"
#include "ravnest/stage/routes.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/worker/model_worker.h"
#include "ravnest/worker/tensors.h"

namespace {

using namespace ravnest;
using nlohmann::json;

struct Run {
  std::vector<Address> addresses;  // by stage, as others dial them
  std::vector<Address> listen;     // where they differ from those
  bool tls = true;
  std::vector<std::int64_t> input_shape;  // with all rows
  std::vector<std::int64_t> target_shape;
  bool classes = false;  // targets are class indices, and the loss is cross entropy; otherwise mean squared error
  std::int64_t batch = 64;
  std::uint64_t steps = 100;
  std::uint64_t warm_up = 10;  // steps before the clock starts
  std::uint32_t microbatches = 1;
  double seconds = 0;  // instead of steps, where it is not 0
  std::string schedule = "async";
  int window = 0;
  std::string codec = "none";
  bool recompute = false;
  std::string optimizer = "Adam";
  optim::Options optimizer_options;
  std::uint64_t seed = 42;
  bool save = false;   // trained_K.pt2 in the end
  bool watch = false;  // resident memory to memory_K.txt, a line a second
};

template <class T>
T require(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cout << json{{"failure", result.status().message()}}.dump() << std::endl;
  std::exit(2);
}

std::vector<Address> addresses_of(const json& list) {
  std::vector<Address> addresses;
  for (const auto& each : list) addresses.push_back(require(parse_address(each.get<std::string>())));
  return addresses;
}

Run read_run(const std::filesystem::path& folder) {
  std::ifstream file(folder / "run.json");
  const json given = json::parse(file);
  Run run;
  run.addresses = addresses_of(given.at("addresses"));
  run.listen = given.contains("listen") ? addresses_of(given["listen"]) : run.addresses;
  run.tls = given.value("tls", run.tls);
  run.input_shape = given.at("input_shape").get<std::vector<std::int64_t>>();
  run.target_shape = given.at("target_shape").get<std::vector<std::int64_t>>();
  run.classes = given.value("classes", run.classes);
  run.batch = given.value("batch", run.batch);
  run.steps = given.value("steps", run.steps);
  run.warm_up = given.value("warm_up", run.warm_up);
  run.microbatches = given.value("microbatches", run.microbatches);
  run.seconds = given.value("seconds", run.seconds);
  run.schedule = given.value("schedule", run.schedule);
  run.window = given.value("window", run.window);
  run.codec = given.value("codec", run.codec);
  run.recompute = given.value("recompute", run.recompute);
  run.optimizer = given.value("optimizer", run.optimizer);
  run.seed = given.value("seed", run.seed);
  run.save = given.value("save", run.save);
  run.watch = given.value("watch", run.watch);
  const json options = given.value("optimizer_options", json::object());
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean())
      run.optimizer_options[name] = value.get<bool>();
    else
      run.optimizer_options[name] = value.get<double>();
  }
  return run;
}

std::string name_of(std::size_t stage) { return text("node_", stage); }

std::filesystem::path identity_folder(const std::filesystem::path& folder, std::size_t stage) {
  return folder / text("stage_", stage);
}

int make_identities(const std::filesystem::path& folder) {
  const Run run = read_run(folder);
  const identity::Authority authority = require(identity::Authority::create("pipeline"));
  for (std::size_t i = 0; i < run.addresses.size(); ++i) {
    std::filesystem::create_directories(identity_folder(folder, i));
    const identity::Identity identity = require(authority.issue(name_of(i)));
    const Status written = identity::write_identity(identity_folder(folder, i), identity, authority.certificate());
    if (!written.ok()) require(Result<int>(written));
  }
  return 0;
}

at::Tensor read_data(const std::filesystem::path& path, const std::vector<std::int64_t>& shape, at::ScalarType type) {
  at::Tensor data = at::empty(shape, type);
  std::ifstream file(path, std::ios::binary);
  file.read(static_cast<char*>(data.data_ptr()), static_cast<std::streamsize>(data.nbytes()));
  TORCH_CHECK(file.gcount() == static_cast<std::streamsize>(data.nbytes()), path.string(), " is too short");
  return data;
}

// The rows of a batch, or of one part of it: as many of the first parts as needed have one row more.
at::Tensor rows(const at::Tensor& data, const Run& run, std::uint64_t batch, std::uint32_t part, std::uint32_t parts) {
  const std::int64_t batches = std::max<std::int64_t>(data.size(0) / run.batch, 1);
  const std::int64_t begin = static_cast<std::int64_t>(batch % static_cast<std::uint64_t>(batches)) * run.batch;
  const at::Tensor whole = data.narrow(0, begin, std::min(run.batch, data.size(0) - begin));
  return parts == 1 ? whole : whole.tensor_split(parts)[part];
}

std::unique_ptr<transport::Endpoint> open_endpoint(const Run& run, const std::filesystem::path& folder,
                                                   std::size_t stage) {
  transport::tcp::Options options;
  options.name = name_of(stage);
  options.plan = "pipeline";
  options.listen = run.listen[stage];
  options.log = Logger(options.name, Level::kWarning);
  for (std::size_t i = 0; i < run.addresses.size(); ++i) {
    if (i != stage) options.peers.push_back({name_of(i), run.addresses[i]});
  }
  if (run.tls)
    options.identity = require(identity::read_identity(identity_folder(folder, stage)));
  else
    options.insecure = transport::tcp::Insecure::kOnLoopback;
  return require(transport::tcp::open(std::move(options)));
}

worker::Criterion criterion_of(const Run& run, at::Tensor targets) {
  return [run, targets](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const at::Tensor& output = outputs.at(0).toTensor();
    const at::Tensor target = rows(targets, run, head.batch, head.part, head.parts);
    const at::Tensor loss = run.classes
                                ? at::cross_entropy_loss(output.reshape({-1, output.size(-1)}), target.flatten())
                                : at::mse_loss(output, target);
    const auto samples = static_cast<std::uint64_t>(output.size(0));
    if (head.kind == wire::PassKind::kTrain) return worker::CriterionResult{loss, samples, 0};
    const at::Tensor expected = run.classes ? target.flatten() : target.argmax(-1).flatten();
    const auto right = (output.argmax(-1).flatten() == expected).sum().item<std::int64_t>();
    return worker::CriterionResult{loss, samples, static_cast<std::uint64_t>(right)};
  };
}

double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The root's own loop, as a user's: offers batches, and says when that was all.
class Feeder {
 public:
  Feeder(const Run& run, cluster::Driver& driver, at::Tensor inputs)
      : run_(run), driver_(driver), inputs_(std::move(inputs)) {}

  Status feed() {
    std::uint64_t batch = 0;
    for (; batch < run_.warm_up; ++batch) {
      if (Status status = offer(batch); !status.ok()) return status;
    }
    if (Status status = driver_.drain(never()); !status.ok()) return status;
    start = std::chrono::steady_clock::now();
    while (run_.seconds > 0 ? seconds_since(start) < run_.seconds : batch < run_.warm_up + run_.steps) {
      if (Status status = offer(batch++); !status.ok()) return status;
    }
    if (Status status = driver_.drain(never()); !status.ok()) return status;
    elapsed_s = seconds_since(start);
    steps = batch - run_.warm_up;
    driver_.finish();
    return {};
  }

  TimePoint start;
  double elapsed_s = 0;
  std::uint64_t steps = 0;

 private:
  static TimePoint never() { return std::chrono::steady_clock::now() + std::chrono::hours(24); }

  Status offer(std::uint64_t batch) {
    for (std::uint32_t part = 0; part < run_.microbatches; ++part) {
      const at::Tensor input = rows(inputs_, run_, batch, part, run_.microbatches);
      const stage::Offer offer{.kind = wire::PassKind::kTrain,
                               .batch = batch,
                               .part = part,
                               .parts = run_.microbatches,
                               .weight = 1.0 / run_.microbatches,
                               .update = part + 1 == run_.microbatches};
      Status status = driver_.offer(offer, {{0, false, worker::to_wire(input, {}, true)}}, never());
      if (!status.ok()) return status;
    }
    return {};
  }

  const Run& run_;
  cluster::Driver& driver_;
  at::Tensor inputs_;
};

json summary(const cluster::DriverStatistics& statistics, const worker::ModelWorker& worker) {
  return {{"forwards", statistics.counts.forwards},
          {"updates", statistics.counts.updates},
          {"staleness_sum", statistics.counts.staleness_sum},
          {"staleness_most", statistics.counts.staleness_most},
          {"in_flight_most", statistics.counts.in_flight_most},
          {"versions_most", worker.versions_most()}};
}

int run_stage(const std::filesystem::path& folder, std::size_t stage) {
  at::set_num_threads(1);
  const Run run = read_run(folder);
  const graph::Engine engine = require(graph::Engine::load(folder / text("stage_", stage, ".pt2")));
  const bool root = stage == 0;
  const bool leaf = stage + 1 == run.addresses.size();
  worker::ModelWorkerOptions options;
  options.seed = run.seed;
  options.codec = require(codec::parse_codec(run.codec));
  options.recompute = run.recompute;
  options.schedule = require(stage::parse_schedule(run.schedule));
  if (leaf) {
    const at::ScalarType type = run.classes ? at::kLong : at::kFloat;
    options.criterion = criterion_of(run, read_data(folder / "targets.bin", run.target_shape, type));
  }
  // What was used up before the clock started does not count.
  double cpu_before_s = 0;
  double busy_before_s = 0;
  double running_before_s = 0;
  const cluster::Driver* driven = nullptr;
  options.on_update = [&](std::uint64_t updates) {
    if (updates != run.warm_up) return;
    cpu_before_s = cpu_seconds();
    busy_before_s = driven->statistics().busy_s();
    running_before_s = driven->statistics().running_s;
  };
  worker::ModelWorker worker(engine, require(optim::make_optimizer(run.optimizer, run.optimizer_options)), options);
  const auto endpoint = open_endpoint(run, folder, stage);
  json losses = json::array();
  cluster::DriverOptions driving;
  driving.stage = stage::stage_options(worker::stage_of(engine));
  driving.stage.schedule = options.schedule;
  driving.stage.window = run.window;
  driving.log = Logger(name_of(stage), Level::kWarning);
  if (run.seconds == 0) driving.on_report = [&](const wire::Report& report) { losses.push_back(report.loss); };
  for (std::size_t i = 0; i < run.addresses.size(); ++i) driving.nodes.push_back(name_of(i));
  cluster::Driver driver(driving, *endpoint, worker);
  driven = &driver;
  std::optional<MemoryWatch> watch;
  if (run.watch) watch.emplace(folder / text("memory_", stage, ".txt"));

  std::optional<Feeder> feeder;
  std::thread user;
  if (root) {
    feeder.emplace(run, driver, read_data(folder / "inputs.bin", run.input_shape, at::kFloat));
    user = std::thread([&] { (void)feeder->feed(); });
  }
  const Status outcome = driver.run().status();
  if (user.joinable()) user.join();
  json result = summary(driver.statistics(), worker);
  result["stage"] = stage;
  result["cpu_s"] = cpu_seconds() - cpu_before_s;
  result["busy_s"] = driver.statistics().busy_s() - busy_before_s;
  result["running_s"] = driver.statistics().running_s - running_before_s;
  if (!outcome.ok()) result["failure"] = outcome.message();
  if (root) {
    result["elapsed_s"] = feeder->elapsed_s;
    result["steps"] = feeder->steps;
    result["losses"] = losses;
  }
  if (run.save && outcome.ok()) {
    const Status saved = engine.save(folder / text("trained_", stage, ".pt2"));
    if (!saved.ok()) result["failure"] = saved.message();
  }
  (void)endpoint->close(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  std::cout << result.dump() << std::endl;
  return outcome.ok() ? 0 : 1;
}

// Forward, backward and update of a pass, by nobody but this stage: it gets its own outputs back as gradients.
double seconds_per_pass(worker::ModelWorker& worker, const std::vector<wire::Forward>& parts, int passes) {
  const TimePoint start = std::chrono::steady_clock::now();
  for (int i = 0; i < passes; ++i) {
    wire::PassHead head = parts.front().head;
    head.pass = head.step = static_cast<std::uint64_t>(i);
    std::vector<wire::Backward> answers;
    for (worker::Outgoing& outgoing : require(worker.forward(head, parts))) {
      if (const auto* forward = std::get_if<wire::Forward>(&outgoing.message))
        answers.push_back({head.pass, static_cast<std::uint32_t>(outgoing.stage), forward->tensors});
    }
    require(worker.backward(head, std::move(answers), {}));
    require(worker.update({.number = static_cast<std::uint64_t>(i)}, {}));
  }
  return seconds_since(start) / passes;
}

int time_alone(const std::filesystem::path& folder) {
  at::set_num_threads(1);
  const Run run = read_run(folder);
  const at::Tensor inputs = read_data(folder / "inputs.bin", run.input_shape, at::kFloat);
  const at::ScalarType type = run.classes ? at::kLong : at::kFloat;
  const at::Tensor targets = read_data(folder / "targets.bin", run.target_shape, type);
  const wire::PassHead head{.parts = run.microbatches, .weight = 1.0 / run.microbatches, .update = true};
  std::map<std::size_t, std::vector<wire::Forward>> parts;
  const at::Tensor first = rows(inputs, run, 0, 0, run.microbatches);
  parts[0].push_back({head, 0, {}, {{0, false, worker::to_wire(first, {}, true)}}});
  json seconds = json::array();
  for (std::size_t stage = 0; stage < run.addresses.size(); ++stage) {
    const graph::Engine engine = require(graph::Engine::load(folder / text("stage_", stage, ".pt2")));
    worker::ModelWorkerOptions options;
    options.seed = run.seed;
    options.codec = require(codec::parse_codec(run.codec));
    options.criterion = criterion_of(run, targets);
    worker::ModelWorker worker(engine, require(optim::make_optimizer(run.optimizer, run.optimizer_options)), options);
    for (worker::Outgoing& outgoing : require(worker.forward(head, parts[stage]))) {
      if (auto* forward = std::get_if<wire::Forward>(&outgoing.message))
        parts[static_cast<std::size_t>(outgoing.stage)].push_back(std::move(*forward));
    }
    const int passes = static_cast<int>(run.steps);
    seconds_per_pass(worker, parts[stage], std::max(passes / 10, 2));
    seconds.push_back(seconds_per_pass(worker, parts[stage], passes));
  }
  std::cout << json{{"seconds", seconds}}.dump() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "identities") return make_identities(arguments[1]);
    if (arguments.size() == 2 && arguments[0] == "alone") return time_alone(arguments[1]);
    if (arguments.size() == 3 && arguments[0] == "run") return run_stage(arguments[1], std::stoul(arguments[2]));
  } catch (const std::exception& error) {
    std::cout << json{{"failure", error.what()}}.dump() << std::endl;
    return 2;
  }
  std::cerr << "usage: stage_node identities FOLDER | run FOLDER STAGE | alone FOLDER\n";
  return 2;
}
