#include "ravnest/graph/frontend/torchscript.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/ir_emitter.h>

#include "ravnest/graph/frontend/script/recorder.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::graph {
namespace {

// y = relu(x W^T) * scale, with noise in training, and a count of the training passes.
torch::jit::Module small_module(const std::string& body) {
  torch::jit::Module module("Small");
  module.register_parameter("weight", at::randn({3, 4}).set_requires_grad(true), false);
  module.register_buffer("passes", at::zeros({}));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(body);
  return module;
}

constexpr char kModes[] = R"(
def forward(self, x, scale: float=2.0):
    y = torch.relu(torch.matmul(x, self.weight.t()))
    if self.training:
        self.passes.add_(1)
        y = y + torch.rand_like(y)
    return y * scale, x.size(0)
)";

// On one thread: the models are small, and on a busy machine threads would only wait for each other.
struct TorchScript : testing::Test {
  TorchScript() { at::set_num_threads(1); }
};

TEST_F(TorchScript, BothModesOfAModuleBecomeGraphs) {
  at::manual_seed(0);
  const torch::jit::Module module = small_module(kModes);
  const Result<ir::Model> model = from_script(module, {at::randn({5, 4})});
  ASSERT_TRUE(model.ok()) << model.status();
  const Engine engine = *Engine::create(*model);
  ASSERT_EQ(engine.names(), (std::vector<std::string>{"weight", "passes"}));
  const at::Tensor x = at::randn({7, 4});
  const at::Tensor expected = at::relu(at::matmul(x, module.attr("weight").toTensor().t()));
  const auto eval = engine.run(Mode::kEval, {x});
  EXPECT_TRUE(at::equal(eval[0].toTensor(), expected * 2.0));
  EXPECT_EQ(eval[1].toInt(), 7) << "the size of the batch is computed";
  RunOptions plain;
  plain.random = std::nullopt;
  at::manual_seed(1);
  const at::Tensor noisy = engine.run(Mode::kTrain, {x}, plain)[0].toTensor();
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(noisy, (expected + at::rand_like(expected)) * 2.0));
  EXPECT_EQ(engine.buffers().front().second.item<float>(), 1);
}

TEST_F(TorchScript, TheModuleIsLeftAsItWas) {
  const torch::jit::Module module = small_module(kModes);
  at::manual_seed(3);
  at::randn({5});
  const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  ASSERT_TRUE(from_script(module, {at::zeros({5, 4})}).ok());
  EXPECT_EQ(module.attr("passes").toTensor().item<float>(), 0);
  EXPECT_TRUE(module.is_training());
  EXPECT_FALSE(module.attr("weight").toTensor().grad().defined());
  EXPECT_TRUE(at::equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), state));
}

TEST_F(TorchScript, ARecordingHasSizesAsValuesAndTheModeOfTheModule) {
  torch::jit::Module module = small_module(kModes);
  const auto targets = [&] {
    std::vector<std::string> found;
    const Result<script::Recording> recording = record_script(module, {at::randn({5, 4}), 3.0});
    for (const ir::Operator& op : recording->graph.operators)
      found.push_back(op.target.substr(op.target.find("aten.") + 5));
    return found;
  };
  const std::vector<std::string> eval = {"t.default", "matmul.default", "relu.default", "mul.Scalar", "sym_size.int"};
  std::vector<std::string> train = eval;
  train.insert(train.begin() + 3, {"add_.Scalar", "rand_like.default", "add.Tensor"});
  EXPECT_EQ(targets(), train);
  EXPECT_EQ(module.attr("passes").toTensor().item<float>(), 0);
  module.eval();
  EXPECT_EQ(targets(), eval);
}

TEST_F(TorchScript, ALoopOnDataIsRefusedByName) {
  const torch::jit::Module module = small_module(R"(
def forward(self, x):
    while bool(x.sum() > 1.0):
        x = x / 2.0
    return x
)");
  const Result<ir::Model> model = from_script(module, {at::ones({2, 2})});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), Code::kUnsupported);
  EXPECT_NE(model.status().message().find("prim::Loop"), std::string::npos) << model.status();
  EXPECT_NE(model.status().message().find("line 3"), std::string::npos) << model.status();
}

TEST_F(TorchScript, ASavedModuleLoads) {
  const torch::jit::Module module = small_module(kModes);
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "small.pt";
  module.save(path.string());
  const at::Tensor x = at::randn({3, 4});
  const Result<ir::Model> model = load_script(path, {x});
  ASSERT_TRUE(model.ok()) << model.status();
  const Engine engine = *Engine::create(*model);
  const at::Tensor expected = at::relu(at::matmul(x, module.attr("weight").toTensor().t())) * 2.0;
  EXPECT_TRUE(at::equal(engine.run(Mode::kEval, {x})[0].toTensor(), expected));
  EXPECT_EQ(load_script(path.string() + ".none", {x}).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ravnest::graph
