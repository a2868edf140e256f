#include "ravnest/train/loop/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <fstream>
#include <future>
#include <mutex>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/checkpoint/fuse.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/train/loop/losses.h"
#include "ravnest/train/loop/testing/run.h"

namespace ravnest::train {
namespace {

using testing::classes;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::inputs;
using testing::kBatch;
using testing::kNodes;
using testing::kRows;
using testing::kTrainingRows;
using ::testing::Property;

class TrainerTest : public testing::RunTest {};

// The same run in one process, by torch's autograd.
class OneProcess {
 public:
  OneProcess() : engine_(graph::Engine::create(testing::network()).value()) {}

  void train(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (std::int64_t row = 0; row < kTrainingRows; row += kBatch) step(row, std::min(row + kBatch, kTrainingRows));
      accuracies.push_back(accuracy());
    }
  }
  std::vector<at::Tensor> parameters() const { return {engine_.tensors().begin(), engine_.tensors().end()}; }
  const std::vector<std::string>& names() const { return engine_.names(); }

  std::vector<double> losses;
  std::vector<double> accuracies;

 private:
  void step(std::int64_t from, std::int64_t to) {
    graph::RunOptions options;
    options.random = graph::RandomKey{5, losses.size()};
    const at::Tensor outputs =
        engine_.run(graph::Mode::kTrain, {inputs().slice(0, from, to).contiguous()}, options)[0].toTensor();
    const at::Tensor loss = make_loss("cross_entropy").value()(outputs, classes().slice(0, from, to));
    optimizer_->step(parameters(), torch::autograd::grad({loss}, parameters()));
    losses.push_back(loss.item<double>());
  }
  double accuracy() const {
    const at::Tensor outputs = engine_.run(graph::Mode::kEval, {inputs().slice(0, kTrainingRows)})[0].toTensor();
    const auto [correct, samples] = correct_of(outputs, classes().slice(0, kTrainingRows));
    return 100.0 * static_cast<double>(correct) / static_cast<double>(samples);
  }

  graph::Engine engine_;
  std::unique_ptr<optim::Optimizer> optimizer_ = optim::make_optimizer("Adam", {{"lr", 0.01}}).value();
};

std::vector<double> lines_of(const char* file) {
  std::ifstream lines(file);
  return {std::istream_iterator<double>(lines), {}};
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], tolerance) << "line " << i;
}

TEST_F(TrainerTest, ThreeNodesTrainAsOneProcessAndFuseToItsWeights) {
  const TrainConfig config = this->config("epochs = 2\nschedule = \"sync\"");
  const Poll poll = patient();
  EXPECT_THAT(at_once([&](int node) { return train(node, config, poll); }), Each(Property(&Status::ok, true)));
  OneProcess alone;
  alone.train(2);
  expect_near(lines_of("losses.txt"), alone.losses, 1e-4);
  expect_near(lines_of("val_accuracies.txt"), alone.accuracies, 1e-2);
  const auto fused = checkpoint::fuse({.safetensors = true});
  ASSERT_TRUE(fused.ok()) << fused.status();
  const auto saved = archive::read_safetensors(fused->safetensors);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::vector<at::Tensor> tensors = graph::materialize(saved->tensors, at::kCPU);
  ASSERT_EQ(tensors.size(), alone.parameters().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(saved->tensors[i].first, alone.names()[i]);
    EXPECT_TRUE(at::equal(tensors[i], alone.parameters()[i])) << alone.names()[i];
  }
}

// With such limits nothing moves that could be seen.
TEST_F(TrainerTest, GradientsAreClippedAsTheConfigSays) {
  for (const char* limit : {"clip_value = 1e-9", "clip_norm = 1e-9"}) {
    const auto outcomes = at_once([&](int number) -> Status {
      TrainConfig own = config(text("epochs = 1\n", limit));
      own.optimizer.name = "SGD";
      auto node = open(number);
      if (!node.ok()) return node.status();
      std::vector<at::Tensor> before;
      for (const at::Tensor& tensor : (*node)->engine().tensors()) before.push_back(tensor.detach().clone());
      auto trainer = Trainer::prepare(**node, own, {});
      if (!trainer.ok()) return trainer.status();
      if (const auto outcome = trainer->train(patient()); !outcome.ok()) return outcome.status();
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(at::allclose((*node)->engine().tensors()[i], before[i], 0, 1e-9)) << number << " with " << limit;
      (*node)->close();
      return {};
    });
    EXPECT_THAT(outcomes, Each(Status()));
  }
}

TEST_F(TrainerTest, EveryNodeHearsTheAccuracy) {
  const TrainConfig config = this->config("epochs = 1\nschedule = \"sync\"");
  const Poll poll = patient();
  std::vector<std::optional<double>> accuracies(kNodes);
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    auto trainer = Trainer::prepare(**node, config, {});
    if (!trainer.ok()) return trainer.status();
    if (const auto trained = trainer->train(poll); !trained.ok()) return trained.status();
    const auto accuracy = trainer->evaluate(poll);
    if (!accuracy.ok()) return accuracy.status();
    accuracies[static_cast<std::size_t>(number)] = *accuracy;
    (*node)->close();
    return {};
  });
  EXPECT_THAT(outcomes, Each(Property(&Status::ok, true)));
  OneProcess alone;
  alone.train(1);
  EXPECT_THAT(accuracies, Each(::testing::Optional(alone.accuracies.back())));
}

TEST_F(TrainerTest, ALossThatCannotBeComputedEndsAllNodesWithOneSentence) {
  write_data(classes() + 100);  // there are three
  const TrainConfig config = this->config("epochs = 1");
  const Poll poll = patient();
  const auto outcomes = at_once([&](int node) { return train(node, config, poll); });
  for (const Status& outcome : outcomes) {
    EXPECT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.message(), HasSubstr("out of bounds")) << outcome;
  }
}

TEST_F(TrainerTest, DataThatTheLeafCannotReadEndsAllNodes) {
  const TrainConfig good = config("epochs = 1");
  TrainConfig bad = good;
  bad.data.options.last = 1000;
  const Poll poll = patient();
  const auto outcomes = at_once([&](int node) { return train(node, node + 1 == kNodes ? bad : good, poll); });
  for (const Status& outcome : outcomes) EXPECT_THAT(outcome.message(), HasSubstr("1000")) << outcome;
}

TEST_F(TrainerTest, NodesThatWaitForOneThatIsNeverStartedEndTogether) {
  const TrainConfig config = this->config("epochs = 1");
  const Poll poll = patient();
  int polled = 0;
  const Poll interrupted = [&]() -> Status { return ++polled < 5 ? Status() : cancelled("node_0 was interrupted"); };
  const auto outcomes =
      at_once([&](int node) { return train(node, config, node == 0 ? interrupted : poll); }, kNodes - 1);
  EXPECT_EQ(outcomes[0].code(), Code::kCancelled);
  EXPECT_THAT(outcomes[1].message(), HasSubstr("node_0 (stage 0) was interrupted"));
  EXPECT_FALSE(std::filesystem::exists("trained"));
}

TEST_F(TrainerTest, AStopFromAnotherThreadEndsTheRunOnAllNodes) {
  const TrainConfig config = this->config("epochs = 1000000");
  const Poll poll = patient();
  std::promise<Node*> under_way;
  std::thread stopper([&, node = under_way.get_future()]() mutable {
    if (node.wait_for(std::chrono::seconds(60)) == std::future_status::ready) node.get()->stop({"was stopped"});
  });
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    auto trainer = Trainer::prepare(**node, config, {});
    if (!trainer.ok()) return trainer.status();
    int polled = 0;
    const auto outcome = trainer->train([&, number]() -> Status {
      if (number == 0 && ++polled == 100) under_way.set_value(node->get());
      return poll();
    });
    // The thread has the node until it has stopped it.
    if (number == 0) stopper.join();
    return outcome.status();
  });
  for (const Status& outcome : outcomes)
    EXPECT_THAT(outcome.message(), HasSubstr("node_0 (stage 0) was stopped")) << outcome;
}

}  // namespace
}  // namespace ravnest::train
