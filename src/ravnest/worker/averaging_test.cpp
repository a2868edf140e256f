// What a worker gives to rounds between clusters, and takes from them.
#include "ravnest/average/averaging.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/worker/testing/chain.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::worker {
namespace {

using testing::Chain;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TensorsByName;
using testing::with_criterion;

// Remembers what is given; a round's result is whatever the test says.
class Rounds final : public average::Averaging {
 public:
  void begin_with(average::StageValues values, average::CarriedState goes_on_with) override {
    begun = std::move(values);
    begun_carried = std::move(goes_on_with);
  }
  void give(std::uint64_t round, average::StageValues values) override {
    entered.push_back(round);
    given = std::move(values);
  }
  average::RoundState rounds() const override { return {}; }
  average::RoundResult take() override { return {given, mean, carried}; }
  void enter(std::uint64_t, std::uint64_t, average::Capture) override {}
  void finish(std::uint64_t, average::Capture) override {}
  void resume() override {}

  average::StageValues begun;
  average::StageValues given;
  average::StageValues mean;
  std::optional<average::CarriedState> carried;
  average::CarriedState begun_carried;
  std::vector<std::uint64_t> entered;
};

at::Tensor batch() { return at::linspace(-1, 1, 24).view({6, 4}); }

class AveragingWorker : public ::testing::Test {
 protected:
  AveragingWorker() : chain_(ir::read_archive(ir::testing::golden("normalised")).value(), {}, options()) {}

  ModelWorkerOptions options() {
    ModelWorkerOptions options = with_criterion();
    options.averaging = &rounds_;
    options.averaging_groups = {{"fc.weight", "fc.bias"},
                                {"norm.weight", "norm.bias", "norm.running_mean", "norm.num_batches_tracked"}};
    options.on_snapshot = [this](const Snapshot& snapshot) { snapshot_ = snapshot; };
    return options;
  }

  // One step, and then what the round brings or takes.
  void train(std::uint64_t number, const Update& update) {
    const wire::PassHead head = testing::training_pass(number);
    ASSERT_TRUE(chain_.forward(head, {batch()}).ok());
    ASSERT_TRUE(chain_.backward(head).ok());
    const Status updated = chain_.update(update);
    ASSERT_TRUE(updated.ok()) << updated;
  }

  // What is given now has this much added by the others.
  void others_add(float difference) {
    rounds_.mean = rounds_.given;
    for (average::GroupValues& group : rounds_.mean) {
      for (float& value : group.parameters) value += difference;
      for (float& value : group.statistics) value += difference;
    }
  }

  std::optional<Snapshot> snapshot_;
  Rounds rounds_;
  Chain chain_;
};

TEST_F(AveragingWorker, GivesParametersAndStatisticsOfEachGroupAndNoCounts) {
  ASSERT_THAT(rounds_.begun, SizeIs(2));
  EXPECT_THAT(rounds_.begun[0].parameters, SizeIs(3 * 4 + 3));
  EXPECT_THAT(rounds_.begun[1].statistics, ElementsAre(0, 0, 0)) << "means as they begin, no number of batches";
  train(0, {.number = 0, .gives = 7});
  EXPECT_THAT(rounds_.entered, ElementsAre(7));
  const TensorsByName tensors = chain_.tensors();
  ASSERT_THAT(rounds_.given, SizeIs(2));
  const at::Tensor first = at::tensor(at::ArrayRef<float>(rounds_.given[0].parameters));
  EXPECT_TRUE(at::equal(first, at::cat({tensors.at("fc.weight").flatten(), tensors.at("fc.bias")})))
      << "after the step of that update";
  EXPECT_TRUE(at::equal(at::tensor(at::ArrayRef<float>(rounds_.given[1].statistics)), tensors.at("norm.running_mean")));
  EXPECT_THAT(rounds_.given[0].optimizer_state, IsEmpty());
}

TEST_F(AveragingWorker, BecomesTheMeanToTheBitWhereNothingWasTrainedSince) {
  train(0, {.number = 0, .gives = 1});
  others_add(0.3F);
  ASSERT_TRUE(chain_.update({.number = 1, .steps = false, .takes = 1}).ok());
  const TensorsByName tensors = chain_.tensors();
  const at::Tensor mean = at::tensor(at::ArrayRef<float>(rounds_.mean[0].parameters));
  EXPECT_TRUE(at::equal(at::cat({tensors.at("fc.weight").flatten(), tensors.at("fc.bias")}), mean));
  EXPECT_TRUE(at::equal(tensors.at("norm.running_mean"), at::tensor(at::ArrayRef<float>(rounds_.mean[1].statistics))));
}

TEST_F(AveragingWorker, AddsWhatTheRoundMadeOfItsWeightsToWhatItTrainedMeanwhile) {
  testing::Whole whole(ir::read_archive(ir::testing::golden("normalised")).value());
  for (std::uint64_t step = 0; step < 2; ++step) whole.train(step, {batch()});
  train(0, {.number = 0, .gives = 1});
  others_add(0.5F);
  train(1, {.number = 1, .takes = 1});
  const at::Tensor given = at::tensor(at::ArrayRef<float>(rounds_.given[0].parameters)).slice(0, 0, 12).view({3, 4});
  const at::Tensor mean = at::tensor(at::ArrayRef<float>(rounds_.mean[0].parameters)).slice(0, 0, 12).view({3, 4});
  EXPECT_TRUE(at::equal(chain_.tensors().at("fc.weight"), whole.tensors().at("fc.weight") + (mean - given)));
}

TEST_F(AveragingWorker, APassInFlightGoesBackAtItsOwnVersionThroughARound) {
  train(0, {.number = 0, .gives = 1});
  others_add(0.5F);
  const wire::PassHead head = testing::training_pass(1);
  ASSERT_TRUE(chain_.forward(head, {batch()}).ok());
  ASSERT_TRUE(chain_.worker(0).give(2, 1).ok());
  EXPECT_THAT(rounds_.entered, ElementsAre(1, 2));
  EXPECT_EQ(chain_.worker(0).versions_most(), 2U);
  EXPECT_TRUE(chain_.backward(head).ok());
}

// By the names of the parameters: so another cut of the model finds it, too.
TEST_F(AveragingWorker, ACheckpointOfARoundHasWhatGoesFromRoundToRound) {
  train(0, {.number = 0, .gives = 1});
  others_add(0.3F);
  const auto numbers = [](float first, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    return values;
  };
  const std::size_t count = rounds_.given[1].parameters.size();
  rounds_.carried = {.momentum = {numbers(1, 15), numbers(30, count)},
                     .residuals = {numbers(60, 15), numbers(90, count)}};
  const average::CarriedState expected = *rounds_.carried;
  ASSERT_TRUE(chain_.update({.number = 1, .steps = false, .takes = 1, .checkpoint = 40}).ok());
  ASSERT_TRUE(snapshot_);
  const auto& momentum = snapshot_->part.record_tensors.at("averaging_momentum");
  const auto bias = std::ranges::find(momentum, "fc.bias", &archive::NamedPayloads::value_type::first);
  ASSERT_NE(bias, momentum.end());
  EXPECT_TRUE(at::equal(checkpoint::tensor_of(bias->second).value(), at::tensor({13.0F, 14.0F, 15.0F})));

  Chain again(ir::read_archive(ir::testing::golden("normalised")).value(), {}, options());
  EXPECT_THAT(rounds_.begun_carried.momentum, IsEmpty());
  const Status restored = again.worker(0).restore(snapshot_->part, 1);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(rounds_.begun_carried.momentum, expected.momentum);
  EXPECT_EQ(rounds_.begun_carried.residuals, expected.residuals);
  EXPECT_EQ(rounds_.begun[0].parameters, rounds_.mean[0].parameters) << "which all hold";
}

}  // namespace
}  // namespace ravnest::worker
