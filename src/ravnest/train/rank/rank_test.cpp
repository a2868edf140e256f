#include "ravnest/train/rank/rank.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ravnest/train/loop/loop.h"
#include "ravnest/train/rank/joint_source.h"
#include "ravnest/train/rank/testing/rank_run.h"

namespace ravnest::train {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using testing::kBatch;
using ::testing::Pointwise;
using RankTest = testing::RankRunTest;

TEST_F(RankTest, TwoRanksTrainAndValidateAsOneProcessWithTwiceTheBatch) {
  TrainConfig alone = config("epochs = 3");
  alone.batch_size = 2 * kBatch;
  alone.loss_file = "alone/losses.txt";
  std::filesystem::create_directories("alone");
  ASSERT_EQ(train(0, 1, alone), Status());
  std::vector<std::vector<at::Tensor>> ended(2);
  const TrainConfig both = config("epochs = 3");
  const auto outcomes =
      at_once([&](int rank) { return train(rank, 2, both, &ended[static_cast<std::size_t>(rank)]); }, 2);
  ASSERT_EQ(outcomes[0], Status());
  ASSERT_EQ(outcomes[1], Status());
  EXPECT_THAT(numbers("losses.txt"), Pointwise(DoubleNear(2e-4), numbers("alone/losses.txt")));
  EXPECT_EQ(numbers("val_accuracies.txt"), numbers("alone/val_accuracies.txt")) << "counts are exact";
  for (std::size_t i = 0; i < ended[0].size(); ++i) EXPECT_TRUE(at::equal(ended[0][i], ended[1][i])) << i;
  EXPECT_TRUE(std::filesystem::exists("trained/trained_state_dict.pt"));
}

// What one sends at once reaches the other before that one has heard that all have met: it must not be lost.
TEST_F(RankTest, RanksThatHaveJustMetHearEachOther) {
  for (int i = 0; i < 30; ++i) {
    for (const Status& outcome : at_once([&](int rank) { return open(rank, 2).status(); }, 2))
      ASSERT_EQ(outcome, Status());
  }
}

// 30 samples for four ranks in batches of 7: 8, 8, 7 and 7 of them, so two ranks have a batch more than the others.
TEST_F(RankTest, ARankThatHasNoBatchLeftTakesPartUntilTheLastOneHasNone) {
  TrainConfig uneven = config("epochs = 2");
  uneven.batch_size = 7;
  TrainConfig alone = uneven;
  alone.batch_size = 28;
  alone.loss_file = "alone/losses.txt";
  std::filesystem::create_directories("alone");
  ASSERT_EQ(train(0, 1, alone), Status());
  for (const Status& outcome : at_once([&](int rank) { return train(rank, 4, uneven); }, 4))
    ASSERT_EQ(outcome, Status());
  EXPECT_THAT(numbers("losses.txt"), Pointwise(DoubleNear(2e-4), numbers("alone/losses.txt")));
}

TEST_F(RankTest, In16BitsTwoRanksTrainAndSave32BitWeights) {
  StrategyOptions strategy;
  strategy.precision = strategy::Precision::kBf16;
  std::vector<std::vector<at::Tensor>> ended(2);
  const auto outcomes = at_once(
      [&](int rank) { return train(rank, 2, config("epochs = 3"), &ended[static_cast<std::size_t>(rank)], strategy); },
      2);
  for (const Status& outcome : outcomes) ASSERT_EQ(outcome, Status());
  const std::vector<double> losses = numbers("losses.txt");
  EXPECT_LT(losses.back(), losses.front());
  for (std::size_t i = 0; i < ended[0].size(); ++i) {
    EXPECT_EQ(ended[0][i].scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(ended[0][i], ended[1][i])) << i;
  }
}

TEST_F(RankTest, GradientsAreClippedAsTheConfigSays) {
  const auto trained_with = [&](const std::string& limit) {
    TrainConfig own = config("epochs = 1\n" + limit);
    own.optimizer.name = "SGD";
    std::vector<at::Tensor> ended;
    EXPECT_EQ(train(0, 1, own, &ended), Status());
    return ended.at(0);
  };
  const at::Tensor still = trained_with("clip_value = 1e-9");
  EXPECT_TRUE(at::allclose(trained_with("clip_norm = 1e-9"), still, 0, 1e-9));
  EXPECT_FALSE(at::allclose(trained_with(""), still, 0, 1e-3));
}

TEST_F(RankTest, ASummaryIsOfTheLastCallAlone) {
  const auto outcomes = at_once(
      [&](int rank) -> Status {
        auto own = open(rank, 2);
        if (!own.ok()) return own.status();
        TrainingOptions options;
        options.optimizer = std::move(*optim::make_optimizer("SGD", {{"lr", 0.01}}));
        options.criterion = [](const wire::PassHead&, const std::vector<c10::IValue>& outputs) {
          return worker::CriterionResult{outputs[0].toTensor().square().mean(), kBatch, 0};
        };
        if (Status done = (*own)->configure(std::move(options)); !done.ok()) return done;
        Position position;
        std::vector<std::uint64_t> sent;
        for (const int batches : {20, 2}) {
          if (Status begun = (*own)->begin("train", patient()); !begun.ok()) return begun;
          Feeder feeder(**own, position, patient());
          for (int i = 0; i < batches; ++i) {
            if (Status fed = feeder.train({{testing::inputs().slice(0, 0, kBatch)}, 0}); !fed.ok()) return fed;
          }
          feeder.end_epoch();
          if (Status over = (*own)->finish({false, "", 1}, patient()); !over.ok()) return over;
          const report::RanksSummary summary = (*own)->summary(1, 1, 1);
          EXPECT_EQ(summary.run.updates_per_epoch, static_cast<std::uint64_t>(batches));
          sent.push_back(summary.ranks.at(0).bytes_sent);
        }
        EXPECT_GT(sent[1], 0U);
        EXPECT_LT(2 * sent[1], sent[0]);
        return {};
      },
      2);
  for (const Status& outcome : outcomes) EXPECT_EQ(outcome, Status());
}

// A loss of 1e30 times another, once: the scheduler does not step, the loss has its line, and all go on.
TEST_F(RankTest, AnUpdateThatFp16SkipsIsSaidOnceAndCounted) {
  StrategyOptions strategy;
  strategy.precision = strategy::Precision::kFp16;
  const auto outcomes = at_once(
      [&](int rank) -> Status {
        auto own = open(rank, 2, strategy);
        if (!own.ok()) return own.status();
        std::ostringstream of_others;
        std::uint64_t scheduled = 0;
        TrainingOptions options;
        options.optimizer = std::move(*optim::make_optimizer("SGD", {{"lr", 0.01}}));
        options.criterion = [&](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
          const double factor = head.batch == 1 || head.batch == 2 ? 1e30 : 1;
          return worker::CriterionResult{outputs[0].toTensor().square().mean() * factor, kBatch, 0};
        };
        options.on_update = [&](std::uint64_t) { ++scheduled; };
        report::Progress progress(rank == 0 ? said_ : of_others);
        options.record.progress = &progress;
        if (Status done = (*own)->configure(std::move(options)); !done.ok()) return done;
        if (Status begun = (*own)->begin("train", patient()); !begun.ok()) return begun;
        Position position;
        Feeder feeder(**own, position, patient());
        for (int i = 0; i < 4; ++i) {
          if (Status fed = feeder.train({{testing::inputs().slice(0, 0, kBatch)}, 0}); !fed.ok()) return fed;
        }
        feeder.end_epoch();
        if (Status over = (*own)->finish({false, "", 1}, patient()); !over.ok()) return over;
        EXPECT_EQ(scheduled, 2U);
        const report::RanksSummary summary = (*own)->summary(1, 4 * kBatch, 1);
        EXPECT_THAT(report::summary_text(summary),
                    HasSubstr("2 updates skipped: gradients were not finite in fp16; loss scale 16384"));
        EXPECT_EQ(summary.run.updates_per_epoch, 4U);
        return {};
      },
      2);
  for (const Status& outcome : outcomes) EXPECT_EQ(outcome, Status());
  EXPECT_EQ(numbers("losses.txt").size(), 4U);
  const std::string said = said_.str();
  const std::string sentence =
      "the gradients of update 2 were not finite in fp16: all ranks skip it, and halve the loss "
      "scale to 32768";
  ASSERT_THAT(said, HasSubstr(sentence));
  EXPECT_EQ(said.find("not finite in fp16", said.find(sentence) + sentence.size()), std::string::npos) << said;
}

// The same batch so many times.
class Repeated final : public BatchSource {
 public:
  explicit Repeated(std::uint64_t count) : count_(count) {}
  Status begin(std::uint64_t /*number*/) override {
    given_ = 0;
    return {};
  }
  Result<std::optional<SourceBatch>> next() override {
    if (given_++ == count_) return std::optional<SourceBatch>();
    return std::optional(SourceBatch{{testing::inputs().slice(0, 0, kBatch)}, 0});
  }
  std::uint64_t batches() const override { return count_; }

 private:
  std::uint64_t count_;
  std::uint64_t given_ = 0;
};

TEST_F(RankTest, WhereARankHasMuchLessDataThanAnotherRank0SaysWhoHadHowMuchOnce) {
  const Poll poll = patient();
  const auto outcomes = at_once(
      [&](int rank) -> Status {
        auto own = open(rank, 2);
        if (!own.ok()) return own.status();
        std::ostringstream of_others;
        report::Progress progress(rank == 0 ? said_ : of_others);
        TrainingOptions options;
        options.optimizer = std::move(*optim::make_optimizer("SGD", {{"lr", 0.01}}));
        options.criterion = [](const wire::PassHead&, const std::vector<c10::IValue>& outputs) {
          return worker::CriterionResult{outputs[0].toTensor().square().mean(), kBatch, 0};
        };
        options.record.progress = &progress;
        if (Status done = (*own)->configure(std::move(options)); !done.ok()) return done;
        if (Status begun = (*own)->begin("train", poll); !begun.ok()) return begun;
        Repeated batches(rank == 0 ? 4 : 1);
        JointSource joint(batches, **own, poll, "epoch");
        BatchCounts counts{"train_loader", "epoch"};
        Position position;
        Feeder feeder(**own, position, poll);
        const auto trained = train_epochs(feeder, {.training = {&joint, &counts}, .validation = {}, .epochs = 2});
        if (!trained.ok()) return trained.status();
        EXPECT_EQ(of_others.str().find("batch"), std::string::npos) << of_others.str();
        return (*own)->finish({false, "", 2}, poll);
      },
      2);
  for (const Status& outcome : outcomes) EXPECT_EQ(outcome, Status());
  const std::string sentence = "rank_1 had 1 batch and rank_0 had 4 batches in epoch ";
  ASSERT_THAT(said_.str(), HasSubstr(sentence + "1: "));
  EXPECT_EQ(said_.str().find(sentence + "2"), std::string::npos) << said_.str();
}

TEST_F(RankTest, WhatAKilledWriterLeftIsRemovedByTheNextRun) {
  std::filesystem::create_directories("trained");
  const std::vector<std::string> left = {"trained/.trained_state_dict.pt.abcdefgh.tmp",
                                         "trained/.trained_state_dict.safetensors.abcdefgh.tmp"};
  for (const std::string& file : left) std::ofstream(file) << "half of it";
  TrainConfig unsaved = config("epochs = 1");
  unsaved.save = false;
  ASSERT_EQ(train(0, 1, unsaved), Status());
  for (const std::string& file : left) EXPECT_FALSE(std::filesystem::exists(file)) << file;
}

}  // namespace
}  // namespace ravnest::train
