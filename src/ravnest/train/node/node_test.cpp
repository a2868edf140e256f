#include "ravnest/train/node/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <fstream>
#include <future>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/checkpoint/fuse.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/optim/optimizer.h"
#include "ravnest/train/loop/testing/run.h"

namespace ravnest::train {
namespace {

using testing::classes;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::inputs;
using testing::kBatch;
using testing::kNodes;
using ::testing::Property;

constexpr std::uint64_t kBatches = 4;
constexpr std::uint64_t kSeed = 5;

// Nodes that are fed batch by batch, without a trainer.
class NodeTest : public testing::RunTest {
 protected:
  static at::Tensor rows_of(const at::Tensor& all, std::uint64_t batch) {
    const auto first = static_cast<std::int64_t>(batch) * kBatch;
    return all.slice(0, first, first + kBatch).contiguous();
  }

  static at::Tensor loss_of(const at::Tensor& outputs, std::uint64_t batch) {
    return at::cross_entropy_loss(outputs, rows_of(classes(), batch));
  }

  static std::unique_ptr<optim::Optimizer> optimizer() { return optim::make_optimizer("Adam", {{"lr", 0.01}}).value(); }

  static TrainingOptions options() {
    TrainingOptions options;
    options.optimizer = optimizer();
    options.criterion = [](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
      return worker::CriterionResult{loss_of(outputs.at(0).toTensor(), head.index), kBatch, 0};
    };
    options.seed = kSeed;
    options.pipeline.schedule = stage::Schedule::kSync;
    return options;
  }

  // One call of that name, in which the root trains on all batches.
  static Status call(Node& node, const std::string& name, const Poll& poll) {
    if (Status begun = node.begin(name); !begun.ok()) return begun;
    if (!node.is_root()) return node.serve(poll).status();
    for (std::uint64_t i = 0; i < kBatches; ++i) {
      const Batch batch{.kind = wire::PassKind::kTrain, .inputs = {rows_of(inputs(), i)}, .index = i};
      if (Status fed = node.feed(batch, poll); !fed.ok()) return fed;
    }
    return node.finish({.save = true, .run = "a run", .epochs = 1}, false, poll).status();
  }
};

TEST_F(NodeTest, NodesThatAreFedBatchesTrainAsOneProcessAndSaveItsWeights) {
  const Poll poll = patient();
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    (*node)->configure(options());
    Status called = call(**node, "train", poll);
    (*node)->close();
    return called;
  });
  ASSERT_THAT(outcomes, Each(Property(&Status::ok, true)));

  const graph::Engine alone = graph::Engine::create(testing::network()).value();
  const std::vector<at::Tensor> parameters(alone.tensors().begin(), alone.tensors().end());
  const auto own = optimizer();
  std::ifstream losses("losses.txt");
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    graph::RunOptions running;
    running.random = graph::RandomKey{kSeed, i};
    const auto outputs = alone.run(graph::Mode::kTrain, {rows_of(inputs(), i)}, running);
    const at::Tensor loss = loss_of(outputs[0].toTensor(), i);
    own->step(parameters, torch::autograd::grad({loss}, parameters));
    double written = 0;
    ASSERT_TRUE(losses >> written) << "batch " << i;
    EXPECT_NEAR(written, loss.item<double>(), 1e-4) << "batch " << i;
  }
  const auto fused = checkpoint::fuse({.safetensors = true});
  ASSERT_TRUE(fused.ok()) << fused.status();
  const auto saved = archive::read_safetensors(fused->safetensors);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::vector<at::Tensor> tensors = graph::materialize(saved->tensors, at::kCPU);
  ASSERT_EQ(tensors.size(), parameters.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(at::equal(tensors[i], parameters[i])) << alone.names()[i];
}

// The last stage cannot give its part of the first checkpoint; then the run fails, and the root, which waits for that
// before the next one, must not wait for ever.
TEST_F(NodeTest, ARootThatWaitsForACheckpointHearsThatTheRunHasFailed) {
  const Poll poll = patient();
  std::promise<void> asked;
  std::promise<void> answer;
  std::promise<void> waits;
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    TrainingOptions own = options();
    own.checkpoints.folder = "checkpoints";
    own.checkpoints.every = checkpoint::parse_interval("epoch").value();
    if (number == 2) {
      own.criterion_state.capture = [&, first = true]() mutable {
        if (std::exchange(first, false)) asked.set_value();
        answer.get_future().wait();
        return worker::OwnState::Captured();
      };
    }
    (*node)->configure(std::move(own));
    if (Status begun = (*node)->begin_run({}, poll); !begun.ok()) return begun;
    if (Status begun = (*node)->begin("train"); !begun.ok()) return begun;
    if (number == 1) {
      asked.get_future().wait();
      waits.get_future().wait();
      (*node)->stop({"was interrupted"});
    }
    if (!(*node)->is_root()) {
      Status served = (*node)->serve(poll).status();
      if (number == 1) answer.set_value();
      return served;
    }
    for (std::uint64_t epoch = 0;; ++epoch) {
      if (epoch == 2) waits.set_value();
      const Batch batch{.kind = wire::PassKind::kTrain, .inputs = {rows_of(inputs(), 0)}, .epoch = epoch};
      if (Status fed = (*node)->feed(batch, poll); !fed.ok()) return fed;
    }
  });
  EXPECT_THAT(outcomes, Each(Property(&Status::message, HasSubstr("node_1 (stage 1) was interrupted"))));
}

TEST_F(NodeTest, OneNodeWithOtherSettingsEndsAllWithTheSameSentence) {
  const Poll poll = patient();
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    TrainingOptions own = options();
    if (number == 1) own.seed = 6;
    (*node)->configure(std::move(own));
    return call(**node, "train", poll);
  });
  for (const Status& outcome : outcomes) {
    EXPECT_THAT(outcome.message(),
                HasSubstr("node_0 (stage 0) failed: seed is 5 on node_0 and 6 on node_1: start the same script"));
  }
  EXPECT_FALSE(outcomes[0].is_of_another());
  EXPECT_TRUE(outcomes[1].is_of_another()) << "its own script may be right, and node_0 says so";
  EXPECT_FALSE(std::filesystem::exists("trained"));
}

TEST_F(NodeTest, NodesThatCallDifferentThingsAreToldSo) {
  const Poll poll = patient();
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    (*node)->configure(options());
    return call(**node, number == 2 ? "evaluate" : "train", poll);
  });
  EXPECT_THAT(outcomes,
              Each(Property(&Status::message, HasSubstr("node_0 runs train() while node_2 runs evaluate()"))));
}

TEST_F(NodeTest, ANodeThatHasLeftBeginsNothing) {
  const Poll poll = patient();
  const auto outcomes = at_once([&](int number) -> Status {
    auto node = open(number);
    if (!node.ok()) return node.status();
    (*node)->configure(options());
    if (Status called = call(**node, "train", poll); !called.ok()) return called;
    (*node)->close();
    return (*node)->begin("train");
  });
  for (int i = 0; i < kNodes; ++i) {
    EXPECT_EQ(outcomes[static_cast<std::size_t>(i)], cancelled("node_", i, " has left its cluster"));
  }
}

}  // namespace
}  // namespace ravnest::train
