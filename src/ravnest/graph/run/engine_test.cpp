#include "ravnest/graph/run/engine.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using ir::testing::golden;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Engine load(std::string_view name) {
  Result<Engine> engine = Engine::load(golden(name));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return std::move(*engine);
}

at::Tensor tensor(const Engine& engine, const std::string& name) {
  const auto found = std::find(engine.names().begin(), engine.names().end(), name);
  TORCH_CHECK(found != engine.names().end(), name);
  return engine.tensors()[found - engine.names().begin()];
}

std::vector<std::string> names(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, value] : tensors) result.push_back(name);
  return result;
}

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      ("ravnest_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST(Engine, ACapturedModelGivesWhatTheSameCallsGive) {
  const Engine engine = load("normalised");
  const at::Tensor x = at::randn({8, 4});
  const at::Tensor mean = tensor(engine, "norm.running_mean").clone();
  const at::Tensor var = tensor(engine, "norm.running_var").clone();
  at::manual_seed(5);
  const at::Tensor y = engine.run(Mode::kTrain, {x}, {std::nullopt, nullptr})[0].toTensor();
  at::manual_seed(5);
  const at::Tensor normal =
      at::batch_norm(at::linear(x, tensor(engine, "fc.weight"), tensor(engine, "fc.bias")),
                     tensor(engine, "norm.weight"), tensor(engine, "norm.bias"), mean, var, true, 0.1, 1e-5, true);
  EXPECT_TRUE(at::equal(y, at::dropout(at::relu(normal), 0.5, true)));
  EXPECT_TRUE(at::equal(tensor(engine, "norm.running_mean"), mean)) << "the graph's writes reach the engine's buffers";
  EXPECT_EQ(tensor(engine, "norm.num_batches_tracked").item<std::int64_t>(), 1);
  EXPECT_TRUE(y.requires_grad());
}

TEST(Engine, ParametersAndBuffersAreToldApart) {
  EXPECT_THAT(names(load("normalised").parameters()), ElementsAre("fc.weight", "fc.bias", "norm.weight", "norm.bias"));
  EXPECT_THAT(names(load("normalised").buffers()),
              ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  EXPECT_THAT(names(load("tied").buffers()), ElementsAre("shift")) << "one outside of the state dict";
  EXPECT_THAT(names(load("windowed").buffers()), ElementsAre("nothing")) << "constants of the code are no buffers";
}

TEST(Engine, NamesOfOneWeightHaveOneTensor) {
  const Engine engine = load("tied");
  EXPECT_TRUE(tensor(engine, "embed.weight").is_same(tensor(engine, "head.weight")));
}

TEST(Engine, AWindowKeepsItsStridesAndItsElements) {
  const Engine engine = load("windowed");
  EXPECT_EQ(tensor(engine, "window").strides(), (std::vector<std::int64_t>{1, 3}));
  const at::Tensor x = at::ones({3, 2});
  const at::Tensor expected = at::matmul(x, tensor(engine, "window")) + at::arange(1, 5, at::kFloat);
  EXPECT_TRUE(at::equal(engine.run(Mode::kEval, {x})[0].toTensor(), expected));
}

TEST(Engine, SeveralKindsOfInputsAndOutputsComeFlat) {
  const Engine engine = load("masked");
  const at::Tensor tokens = at::zeros({2, 5}, at::kLong);
  at::Tensor mask = at::zeros({2, 5}, at::kBool);
  mask[0][1] = true;
  const std::vector<IValue> outputs = engine.run(Mode::kTrain, {tokens, mask});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].toTensor()[0][1][0].item<float>(), 0) << "minus infinity came through";
  EXPECT_EQ(outputs[1].toInt(), 5);
}

TEST(Engine, WhatIsSavedLoadsWithThePresentValues) {
  const Folder folder;
  const Engine engine = load("normalised");
  {
    const torch::autograd::AutoGradMode no_grad(false);
    tensor(engine, "fc.weight").fill_(0.25);
    engine.run(Mode::kTrain, {at::randn({8, 4})});
  }
  ASSERT_TRUE(engine.save(folder / "saved.pt2").ok());
  const Engine again = Engine::load(folder / "saved.pt2").value();
  EXPECT_EQ(again.names(), engine.names());
  for (std::size_t i = 0; i < engine.tensors().size(); ++i) {
    EXPECT_TRUE(at::equal(again.tensors()[i], engine.tensors()[i])) << engine.names()[i];
    EXPECT_EQ(again.tensors()[i].requires_grad(), engine.tensors()[i].requires_grad()) << engine.names()[i];
  }
  EXPECT_EQ(names(again.parameters()), names(engine.parameters()));
}

TEST(Engine, TiedWindowedAndEmptyTensorsSurviveSaving) {
  const Folder folder;
  for (const char* name : {"tied", "windowed", "masked"}) {
    const Engine engine = load(name);
    ASSERT_TRUE(engine.save(folder / "saved.pt2").ok());
    const Engine again = Engine::load(folder / "saved.pt2").value();
    for (std::size_t i = 0; i < engine.tensors().size(); ++i) {
      EXPECT_TRUE(at::equal(again.tensors()[i], engine.tensors()[i])) << engine.names()[i];
      EXPECT_EQ(again.tensors()[i].strides(), engine.tensors()[i].strides()) << engine.names()[i];
    }
    if (std::string_view(name) == "tied") {
      EXPECT_TRUE(tensor(again, "embed.weight").is_same(tensor(again, "head.weight")));
    }
  }
}

TEST(Engine, OnADeviceItIsACopyThatGoesItsOwnWay) {
  const Engine engine = load("tied");
  const Engine copy = engine.on(at::kCPU).value();
  EXPECT_TRUE(tensor(copy, "embed.weight").is_same(tensor(copy, "head.weight")));
  const torch::autograd::AutoGradMode no_grad(false);
  const at::Tensor before = tensor(engine, "embed.weight").clone();
  tensor(copy, "embed.weight").zero_();
  EXPECT_TRUE(at::equal(tensor(engine, "embed.weight"), before));
}

TEST(Engine, StagesCutOutOfItShareItsTensors) {
  const Engine engine = load("tied");
  const std::vector<Engine> stages = engine.slice(std::vector<int>{1}).value();
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_TRUE(tensor(stages[0], "embed.weight").is_same(tensor(engine, "embed.weight")));
  EXPECT_TRUE(tensor(stages[1], "head.weight").is_same(tensor(engine, "embed.weight")));
  EXPECT_EQ(engine.slice(std::vector<int>{99}).status().code(), Code::kInvalid);
}

TEST(Engine, AFileThatCannotBeReadOrRunIsNamed) {
  const Folder folder;
  EXPECT_EQ(Engine::load(folder / "none.pt2").status().code(), Code::kNotFound);
  ir::Model model = ir::read_archive(golden("tied")).value();
  model.train.operators[0].target = "torch.ops.own.lookup.default";
  ASSERT_TRUE(ir::write_archive(model, folder / "own.pt2").ok());
  const Status status = Engine::load(folder / "own.pt2").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("own.pt2: training graph: at \"embedding\": operator torch.ops.own.lookup.default"));
}

}  // namespace
}  // namespace ravnest::graph
