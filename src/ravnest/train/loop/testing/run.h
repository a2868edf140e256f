// For tests: a small network planned for three nodes, and a run of it with nodes as threads of this process, over TLS.
// Not part of any library.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/archive/testing/files.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/graph/cost/profile.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/net/testing/free_port.h"
#include "ravnest/plan/clusterize/clusterize.h"
#include "ravnest/train/loop/trainer.h"

namespace ravnest::train::testing {

inline constexpr int kNodes = 3;
inline constexpr std::int64_t kTrainingRows = 30;
inline constexpr std::int64_t kRows = 42;  // the rest are to validate with
inline constexpr std::int64_t kBatch = 8;  // so that the last of an epoch is short

// Three linear layers with tanh between them, and dropout behind the first: 4 columns in, 3 classes out.
inline ir::Model network() {
  using ir::Ref;
  ir::testing::ModelBuilder builder;
  const auto weight = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < out * in; ++i) values.push_back(std::sin(static_cast<float>(i * i + out)) / 2);
    return builder.parameter(name, {out, in}, std::move(values));
  };
  const auto rows_of = [](std::int64_t columns) {
    return ir::testing::Sizes{ir::testing::dynamic("s0"), ir::testing::fixed(columns)};
  };
  const auto linear = [&](const std::string& name, Ref x, Ref w, std::int64_t columns) {
    return builder.call(name, "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, rows_of(columns));
  };
  const Ref first = weight("first.weight", 8, 4);
  const Ref second = weight("second.weight", 8, 8);
  const Ref third = weight("third.weight", 3, 8);
  Ref x = linear("a", builder.input("x", rows_of(4)), first, 8);
  x = builder.call("b", "torch.ops.aten.tanh.default", {{"self", x}}, rows_of(8));
  x = builder.call("c", "torch.ops.aten.dropout.default", {{"input", x}, {"p", 0.25}, {"train", true}}, rows_of(8));
  x = linear("d", x, second, 8);
  x = builder.call("e", "torch.ops.aten.tanh.default", {{"self", x}}, rows_of(8));
  ir::Model model = builder.returns({linear("f", x, third, 3)});
  model.eval.operators[2].inputs[2].value = false;
  return model;
}

inline at::Tensor inputs() { return (at::arange(kRows * 4, at::kFloat) * 0.7).sin().view({kRows, 4}); }
inline at::Tensor classes() { return inputs().sum(1).mul(2).round().to(at::kLong).remainder(3); }

// A new folder in which this process works meanwhile.
class WorkingFolder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  const test::TemporaryFolder folder_;
  const std::filesystem::path before_;
};

// Works in a folder with the plan, the data and what a run leaves.
class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    at::set_num_threads(1);
    write_plan();
    write_data(classes());
  }

  static void write_data(const at::Tensor& targets) {
    const at::Tensor x = inputs().contiguous();
    const auto bytes = [](const at::Tensor& tensor) {
      return std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    };
    test::write("data/x.npy", archive::testing::npy_of("<f4", text("(", kRows, ", 4)"), bytes(x)));
    test::write("data/y.npy", archive::testing::npy_of("<i8", text("(", kRows, ",)"), bytes(targets.contiguous())));
  }

  static TrainConfig config(const std::string& more) {
    const std::string files = "format = \"npy\"\ninputs = \"data/x.npy\"\ntargets = \"data/y.npy\"\n";
    const std::string toml =
        text("batch_size = ", kBatch, "\nseed = 5\nloss = \"cross_entropy\"\nsave = true\n", more,
             "\n[optimizer]\nname = \"Adam\"\nlr = 0.01\n[data]\n", files, "rows = [0, ", kTrainingRows,
             "]\n[validation]\n", files, "rows = [", kTrainingRows, ", ", kRows, "]\n");
    Result<TrainConfig> read = decode_train_config(toml, "train.toml");
    EXPECT_TRUE(read.ok()) << read.status();
    return std::move(*read);
  }

  static Result<std::unique_ptr<Node>> open(int node) {
    NodeOptions options;
    options.name = text("node_", node);
    options.log = Logger("test", Level::kOff);
    return Node::open(std::move(options));
  }

  // All nodes at once, each in a thread of its own; what became of each.
  using Play = std::function<Status(int node)>;
  static std::vector<Status> at_once(const Play& play, int nodes = kNodes) {
    std::vector<Status> outcomes(static_cast<std::size_t>(nodes));
    std::vector<std::thread> threads;
    for (int i = 0; i < nodes; ++i) threads.emplace_back([&, i] { outcomes[static_cast<std::size_t>(i)] = play(i); });
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  // No run may last longer.
  static Poll patient() {
    return [deadline = SystemClock().now() + std::chrono::seconds(60)]() -> Status {
      return SystemClock().now() < deadline ? Status() : cancelled("the test has waited for too long");
    };
  }

  static Status train(int number, const TrainConfig& config, const Poll& poll) {
    auto node = open(number);
    if (!node.ok()) return node.status();
    auto trainer = Trainer::prepare(**node, config, {});
    if (!trainer.ok()) return trainer.status();
    const auto outcome = trainer->train(poll);
    if (!outcome.ok()) return outcome.status();
    (*node)->close();
    return {};
  }

 private:
  static void write_plan() {
    std::string pool;
    for (int i = 0; i < kNodes; ++i) {
      pool += text(i > 0 ? ", " : "", "\"", i, R"(": {"IP": "127.0.0.1:)", free_port(),
                   R"(", "benchmarks": {"ram": 8, "bandwidth": 1000}})");
    }
    test::write("node_data/node_configs.json", text("{", pool, "}"));
    const ir::Model model = network();
    plan::ClusterizeOptions options;
    options.form.min_cluster_size = kNodes;
    const auto plan = plan::clusterize(model, graph::profile_shapes(model).value(), options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->clusters.at(0).stages.size(), static_cast<std::size_t>(kNodes));
  }

  const WorkingFolder folder_;
};

}  // namespace ravnest::train::testing
