// Trains a torch::nn model in C++ alone, as a pipeline of three stages or data-parallel.
//
//   spirals              the stages are threads of this process
//   spirals processes    the stages are processes, which talk over mutual TLS
//   spirals ranks        two ranks, threads of this process, have the whole model each and half of every batch
//
// The model tells two spirals apart. All data is made from the batch's number, so every process has it. Processes
// listen on ports from 18480 up and ranks on 18483, or on those from MASTER_PORT.
#include <spawn.h>
#include <sys/wait.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "ravnest/cluster/driver.h"
#include "ravnest/identity/identity.h"
#include "ravnest/ravnest.h"
#include "ravnest/stage/routes.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/worker/tensors.h"

extern char** environ;

namespace {

using namespace ravnest;

constexpr int kStages = 3;
constexpr std::uint64_t kSteps = 1500;
constexpr int kRanks = 2;
constexpr std::uint64_t kRankSteps = 400;
constexpr std::int64_t kBatch = 128;

void require(const Status& status) {
  if (status.ok()) return;
  std::cerr << status << '\n';
  std::exit(1);
}
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

struct Batch {
  at::Tensor points;
  at::Tensor classes;
};

// The same for the same number, in every process.
Batch make_batch(std::uint64_t number) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(number + 1);
  const at::Tensor along = torch::rand({kBatch}, generator) * 3 + 0.3;
  const at::Tensor classes = torch::randint(2, {kBatch}, generator, torch::kLong);
  const at::Tensor angle = along * 2 + classes * M_PI;
  const at::Tensor points = torch::stack({along * angle.cos(), along * angle.sin()}, 1);
  return {points + torch::randn({kBatch, 2}, generator) * 0.05, classes};
}

torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  std::int64_t width = 2;
  for (int layer = 0; layer < 6; ++layer) {
    model->push_back(torch::nn::Linear(width, 64));
    model->push_back(torch::nn::Tanh());
    width = 64;
  }
  model->push_back(torch::nn::Linear(width, 2));
  return model;
}

// Linear, Tanh, Linear, Tanh, ...: two of each per stage.
std::vector<ir::Model> make_stages() {
  const ir::Model model = require(graph::trace(*make_model(), {make_batch(0).points}));
  return require(graph::slice(model, std::vector<int>{4, 8}));
}

worker::CriterionResult criterion(const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
  const Batch batch = make_batch(head.batch);
  const at::Tensor& scores = outputs.at(0).toTensor();
  const auto right = (scores.argmax(1) == batch.classes).sum().item<std::int64_t>();
  return {torch::cross_entropy_loss(scores, batch.classes), static_cast<std::uint64_t>(kBatch),
          static_cast<std::uint64_t>(right)};
}

std::unique_ptr<optim::Optimizer> make_optimizer() { return require(optim::make_optimizer("NAdam", {{"lr", 0.001}})); }

void show(const wire::Report& report) {
  if (report.pass % 250 != 0 && report.pass + 1 != kSteps) return;
  std::cout << "batch " << report.pass << ": loss " << report.loss << ", "
            << 100.0 * static_cast<double>(report.correct) / static_cast<double>(report.samples) << " % right\n";
}

std::uint16_t first_port(std::uint16_t otherwise) {
  const char* port = std::getenv("MASTER_PORT");
  return port == nullptr ? otherwise : static_cast<std::uint16_t>(std::stoi(port));
}

TimePoint never() { return std::chrono::steady_clock::now() + std::chrono::hours(24); }

int train_with_threads() {
  std::vector<graph::Engine> engines;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  for (ir::Model& stage : make_stages()) {
    engines.push_back(require(graph::Engine::create(std::move(stage))));
    optimizers.push_back(make_optimizer());
  }
  cluster::LocalClusterOptions options;
  options.worker.criterion = criterion;
  options.on_report = show;
  const auto cluster =
      require(cluster::LocalCluster::open(std::move(engines), std::move(optimizers), std::move(options)));
  for (std::uint64_t i = 0; i < kSteps; ++i) require(cluster->offer({.batch = i}, {make_batch(i).points}, never()));
  require(cluster->close());
  return 0;
}

// -- as processes

std::string name_of(int stage) { return text("node_", stage); }

std::unique_ptr<transport::Endpoint> open_endpoint(int stage, const std::filesystem::path& folder) {
  transport::tcp::Options options;
  options.name = name_of(stage);
  options.plan = "spirals";
  const std::uint16_t first = first_port(18480);
  options.listen = {"127.0.0.1", static_cast<std::uint16_t>(first + stage)};
  options.identity = require(identity::read_identity(folder / name_of(stage)));
  for (int peer = 0; peer < kStages; ++peer) {
    if (peer != stage)
      options.peers.push_back({name_of(peer), {"127.0.0.1", static_cast<std::uint16_t>(first + peer)}});
  }
  return require(transport::tcp::open(std::move(options)));
}

// One stage, as each machine of a cluster would run it.
int run_stage(int stage, const std::filesystem::path& folder) {
  const graph::Engine engine = require(graph::Engine::load(folder / name_of(stage) / "stage.pt2"));
  worker::ModelWorkerOptions working;
  working.criterion = criterion;
  worker::ModelWorker worker(engine, make_optimizer(), working);
  const auto endpoint = open_endpoint(stage, folder);
  cluster::DriverOptions driving;
  driving.stage = stage::stage_options(worker::stage_of(engine));
  for (int i = 0; i < kStages; ++i) driving.nodes.push_back(name_of(i));
  driving.on_report = show;
  cluster::Driver driver(driving, *endpoint, worker);

  // The root's own thread offers batches; what goes wrong comes back from `run`.
  std::thread feeder;
  if (stage == 0) {
    feeder = std::thread([&] {
      for (std::uint64_t i = 0; i < kSteps; ++i) {
        const at::Tensor points = make_batch(i).points;
        if (!driver.offer({.batch = i}, {{0, false, worker::to_wire(points, {}, true)}}, never()).ok()) return;
      }
      driver.finish();
    });
  }
  const Status outcome = driver.run().status();
  if (feeder.joinable()) feeder.join();
  (void)endpoint->close(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  require(outcome);
  return 0;
}

int train_with_processes(const char* program) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / text("spirals-", getpid());
  const identity::Authority authority = require(identity::Authority::create("spirals"));
  std::vector<ir::Model> stages = make_stages();
  std::vector<pid_t> processes;
  for (int i = 0; i < kStages; ++i) {
    std::filesystem::create_directories(folder / name_of(i));
    require(ir::write_archive(stages[static_cast<std::size_t>(i)], folder / name_of(i) / "stage.pt2"));
    require(
        identity::write_identity(folder / name_of(i), require(authority.issue(name_of(i))), authority.certificate()));
  }
  for (int i = 0; i < kStages; ++i) {
    std::vector<std::string> words = {program, "stage", std::to_string(i), folder.string()};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t process = 0;
    if (posix_spawn(&process, program, nullptr, nullptr, arguments.data(), environ) == 0) processes.push_back(process);
  }
  bool well = processes.size() == kStages;
  for (const pid_t process : processes) {
    int status = 0;
    well &= waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::filesystem::remove_all(folder);
  return well ? 0 : 1;
}

// -- as ranks

// The half of all samples that is this rank's.
Batch share_of(const Batch& batch, int rank) {
  return {batch.points.chunk(kRanks)[static_cast<std::size_t>(rank)].contiguous(),
          batch.classes.chunk(kRanks)[static_cast<std::size_t>(rank)]};
}

// What each process of a run would do.
void train_rank(int rank, const std::filesystem::path& model) {
  train::RankOptions options;
  options.model = model;
  options.rendezvous.place = {.rank = rank,
                              .world = kRanks,
                              .local_rank = rank,
                              .local_world = kRanks,
                              .node = 0,
                              .master = {"127.0.0.1", first_port(18483)}};
  const train::Poll patient = [] { return Status(); };  // asked while it waits; nobody ends this run before its time
  const auto own = require(train::Rank::open(std::move(options), patient));
  train::TrainingOptions training;
  training.optimizer = make_optimizer();
  training.record.loss_file.clear();
  training.record.accuracy_file.clear();
  training.criterion = [rank](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const Batch batch = share_of(make_batch(head.index), rank);
    const at::Tensor loss = torch::cross_entropy_loss(outputs.at(0).toTensor(), batch.classes);
    if (rank == 0 && head.index % 100 == 0)
      std::cout << "batch " << head.index << ": loss " << loss.item<double>() << " of rank 0's half\n";
    return worker::CriterionResult{loss, static_cast<std::uint64_t>(batch.classes.numel()), 0};
  };
  require(own->configure(std::move(training)));
  require(own->begin("train", patient));
  for (std::uint64_t i = 0; i < kRankSteps; ++i)
    require(own->feed({.inputs = {share_of(make_batch(i), rank).points}, .index = i}, patient));
  require(own->finish({.save = false, .run = "spirals", .epochs = 1}, patient));
  own->close();
}

int train_with_ranks() {
  const std::filesystem::path model = std::filesystem::temp_directory_path() / text("spirals-", getpid(), ".pt2");
  require(ir::write_archive(require(graph::trace(*make_model(), {make_batch(0).points})), model));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.emplace_back([&, rank] { train_rank(rank, model); });
  for (std::thread& rank : ranks) rank.join();
  std::filesystem::remove(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return train_with_threads();
  if (arguments[0] == "processes") return train_with_processes("/proc/self/exe");
  if (arguments[0] == "ranks") return train_with_ranks();
  if (arguments.size() == 3 && arguments[0] == "stage") return run_stage(std::stoi(arguments[1]), arguments[2]);
  std::cerr << "usage: spirals [processes|ranks]\n";
  return 2;
}
