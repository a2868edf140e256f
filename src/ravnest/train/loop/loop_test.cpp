#include "ravnest/train/loop/loop.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ravnest::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what a loop does with it: t EPOCH.INDEX, v SWEEP.INDEX, and its other calls by name. The n-th prediction
// has n outputs, which are reported when it is drained.
class Witness final : public BatchSink {
 public:
  explicit Witness(bool rounds = false) : rounds_(rounds) {}

  Result<std::uint64_t> samples_of_all(const Batch& batch, const Poll&) override {
    return batch.inputs.empty() ? 1 : static_cast<std::uint64_t>(batch.inputs[0].size(0));
  }
  Status feed(const Batch& batch, const Poll&) override {
    if (batch.kind == wire::PassKind::kPredict) {
      record_.expect({.kind = batch.kind}, 0);
      ++under_way_;
    }
    const char* kind = batch.kind == wire::PassKind::kTrain ? "t" : batch.kind == wire::PassKind::kPredict ? "p" : "v";
    seen.push_back(text(kind, batch.epoch, ".", batch.index));
    if (shows_rows) seen.back() += text(" ", batch.inputs[0][0].item<std::int64_t>());
    if (on_feed) on_feed();
    return {};
  }
  Status end_sweep(Sweep sweep) override { return note(sweep == Sweep::kValidation ? "validated" : "evaluated"); }
  Status drain(const Poll& poll) override {
    if (Status polled = poll ? poll() : Status(); !polled.ok()) return polled;
    for (; under_way_ > 0; --under_way_) {
      if (Status taken = record_.on_report({.outputs = std::vector<wire::Tensor>(++predicted_)}); !taken.ok())
        return taken;
    }
    return note("drained");
  }
  bool has_rounds() const override { return rounds_; }
  Status finish_rounds(const Poll&) override { return note("rounds"); }
  std::optional<std::string> end_wanted() const override { return wanted; }
  RunRecord& record() override { return record_; }
  void warn(const std::string& line) const override { warnings.push_back(line); }

  std::vector<std::string> seen;
  bool shows_rows = false;  // and the first of the batch's inputs
  std::function<void()> on_feed;
  std::optional<std::string> wanted;
  mutable std::vector<std::string> warnings;

 private:
  Status note(std::string what) {
    seen.push_back(std::move(what));
    return {};
  }

  bool rounds_;
  RunRecord record_{{}};
  int under_way_ = 0;  // predictions
  std::size_t predicted_ = 0;
};

// So many batches the first time, the second, and so on; the last number goes on.
class Counter final : public BatchSource {
 public:
  explicit Counter(std::vector<std::uint64_t> sizes) : sizes_(std::move(sizes)) {}

  Status begin(std::uint64_t number) override {
    begun.push_back(number);
    left_ = sizes_[std::min(begun.size(), sizes_.size()) - 1];
    return {};
  }
  Result<std::optional<SourceBatch>> next() override {
    if (left_ == 0) return std::optional<SourceBatch>();
    --left_;
    return std::optional(SourceBatch());
  }
  std::uint64_t batches() const override { return 0; }

  std::vector<std::uint64_t> begun;

 private:
  std::vector<std::uint64_t> sizes_;
  std::uint64_t left_ = 0;
};

struct Training {
  explicit Training(std::vector<std::uint64_t> epochs, bool rounds = false)
      : witness(rounds), training(std::move(epochs)) {
    options.training = {&training, &epoch_counts};
    options.validation = {&validation, &sweep_counts};
  }

  Status train() {
    Feeder feeder(witness, position, poll);
    return train_epochs(feeder, options).status();
  }

  Witness witness;
  Counter training;
  Counter validation{{1}};
  BatchCounts epoch_counts{"train_loader", "epoch"};
  BatchCounts sweep_counts{"val_loader", "validation"};
  Position position;
  Poll poll;
  LoopOptions options;
};

TEST(Loop, GoesOnInTheMiddleOfAnEpochWithoutWhatCameBefore) {
  Training run({3});
  run.options.epochs = 3;
  run.position.go_on = GoOn{.epoch = 1, .index = 2, .trained = 5, .sweep = 1};
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t1.2", "v1.0", "validated", "t2.0", "t2.1", "t2.2", "v2.0", "validated", "drained"));
  EXPECT_THAT(run.training.begun, ElementsAre(1, 2));
  EXPECT_EQ(run.position.trained, 9);
}

// Batches of a size, the last one short, of so many samples.
class Rows final : public BatchSource {
 public:
  Rows(std::int64_t samples, std::int64_t batch) : samples_(samples), batch_(batch) {}

  Status begin(std::uint64_t) override {
    at_ = 0;
    return {};
  }
  Result<std::optional<SourceBatch>> next() override {
    if (at_ >= samples_) return std::optional<SourceBatch>();
    const std::int64_t begin = std::exchange(at_, std::min(at_ + batch_, samples_));
    return std::optional(SourceBatch{{at::arange(begin, at_)}, 0});
  }
  std::uint64_t batches() const override { return 0; }

 private:
  std::int64_t samples_;
  std::int64_t batch_;
  std::int64_t at_ = 0;
};

struct GoingOn {
  std::int64_t batch;  // that the run goes on with; it had 8
  GoOn from;
  std::vector<std::string> fed;  // of the epoch in which it goes on, and the first of the next one
  std::string said = {};
};

TEST(Loop, GoesOnAtTheSampleWhereBatchesAreOfAnotherSize) {
  // 30 samples: an epoch of 8, 8, 8 and 6.
  const auto from = [](std::uint64_t index, std::uint64_t samples) {
    return GoOn{.epoch = 1, .index = index, .samples = samples, .batch = 8, .trained = 4 + index, .sweep = 1};
  };
  const std::vector<GoingOn> all = {
      {8, from(2, 16), {"t1.2 16", "t1.3 24", "t2.0 0"}},
      {4, from(2, 16), {"t1.4 16", "t1.5 20", "t1.6 24", "t1.7 28", "t2.0 0"}},
      {16, from(2, 16), {"t1.1 16", "t2.0 0"}},
      {30, from(4, 30), {"t2.0 0"}},
      {7, from(4, 30), {"t2.0 0", "t2.1 7"}},
      {12, from(3, 24), {"t1.2 24", "t2.0 0"}},
      {12,
       from(2, 16),
       {"t1.1 12", "t1.2 24", "t2.0 0"},
       "the checkpoint is 16 samples into epoch 2, and a step takes 12 now, where it took 8: the run goes on with the "
       "step of samples 13 to 24, of which the first 4 were trained on before"},
      {20,
       from(1, 8),
       {"t1.0 0", "t1.1 20", "t2.0 0"},
       "the checkpoint is 8 samples into epoch 2, and a step takes 20 now, where it took 8: the run goes on with the "
       "step of samples 1 to 20, of which the first 8 were trained on before"},
  };
  for (const GoingOn& each : all) {
    SCOPED_TRACE(text(each.batch, " from ", each.from.samples));
    Training run({});
    Rows rows(30, each.batch);
    run.options.training.batches = &rows;
    run.options.validation = {};
    run.options.epochs = 3;
    run.witness.shows_rows = true;
    run.position.go_on = each.from;
    ASSERT_TRUE(run.train().ok());
    ASSERT_GE(run.witness.seen.size(), each.fed.size());
    run.witness.seen.resize(each.fed.size());
    EXPECT_EQ(run.witness.seen, each.fed);
    EXPECT_EQ(run.witness.warnings, each.said.empty() ? std::vector<std::string>() : std::vector{each.said});
  }
}

TEST(Loop, ARunThatIsOverDoesNothingMore) {
  Training run({3});
  run.options.epochs = 2;
  run.position.go_on = GoOn{.epoch = 2, .index = 0, .trained = 6, .sweep = 2};
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen, ElementsAre("drained"));
  EXPECT_THAT(run.witness.warnings, ElementsAre("nothing is trained: all 2 epochs that it was asked for lie before the "
                                                "checkpoint that the run goes on from"));
}

TEST(Loop, GoesOnWithTheValidationThatWasDueAfterTheLastBatch) {
  Training run({4});
  run.options.epochs = 1;
  run.options.val_freq = 2;
  run.position.go_on = GoOn{.epoch = 0, .index = 2, .trained = 2};
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen, ElementsAre("v0.0", "validated", "t0.2", "t0.3", "v1.0", "validated", "drained"));
}

TEST(Loop, WhatWasValidatedBeforeTheRunWasInterruptedIsNotValidatedAgain) {
  Training often({4});
  often.options.epochs = 1;
  often.options.val_freq = 2;
  often.position.go_on = GoOn{.epoch = 0, .index = 2, .trained = 2, .sweep = 1, .validated = 2};
  ASSERT_TRUE(often.train().ok());
  EXPECT_THAT(often.witness.seen, ElementsAre("t0.2", "t0.3", "v1.0", "validated", "drained"));

  Training each_epoch({2});
  each_epoch.options.epochs = 2;
  each_epoch.position.go_on = GoOn{.epoch = 0, .index = 2, .trained = 2, .sweep = 1, .validated = 2};
  ASSERT_TRUE(each_epoch.train().ok());
  EXPECT_THAT(each_epoch.witness.seen, ElementsAre("t1.0", "t1.1", "v1.0", "validated", "drained"));
}

TEST(Loop, WhoIsToldToEndDoesNotValidateToTheEnd) {
  Training run({1});
  run.validation = Counter({1000});
  run.witness.on_feed = [&] {
    if (run.witness.seen.size() == 4) run.witness.wanted = "node_1 got SIGTERM";
  };
  EXPECT_EQ(run.train(), cancelled("the training ends early: node_1 got SIGTERM"));
  EXPECT_THAT(run.witness.seen, ElementsAre("t0.0", "v0.0", "v0.1", "v0.2"));
}

TEST(Loop, ALoopOfTheUsersHasItsEarlierBatchesTakenAndNotFed) {
  Witness witness;
  Position position;
  position.go_on = GoOn{.epoch = 1, .index = 1, .trained = 3, .sweep = 1};
  Feeder feeder(witness, position, {});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(feeder.train({}).ok());
    ASSERT_TRUE(feeder.validate({}, Sweep::kValidation).ok());
    ASSERT_TRUE(feeder.end_sweep().ok());
    feeder.end_epoch();
  }
  EXPECT_THAT(witness.seen, ElementsAre("t1.1", "v1.0", "validated"));
  EXPECT_EQ(position.trained, 4);
}

TEST(Loop, ValidatesOnceAnEpochAndNotTwiceAtTheEnd) {
  Training run({2});
  run.options.epochs = 2;
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t0.0", "t0.1", "v0.0", "validated", "t1.0", "t1.1", "v1.0", "validated", "drained"));
  EXPECT_EQ(run.position.trained, 4U);
}

TEST(Loop, ValidatesEachTimeThatSoManyBatchesWereFed) {
  Training run({2});
  run.options.epochs = 2;
  run.options.val_freq = 3;
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t0.0", "t0.1", "t1.0", "v0.0", "validated", "t1.1", "v1.0", "validated", "drained"));
}

TEST(Loop, WhatWasValidatedWithTheLastBatchIsNotValidatedAgain) {
  Training run({4});
  run.options.val_freq = 2;
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t0.0", "t0.1", "v0.0", "validated", "t0.2", "t0.3", "v1.0", "validated", "drained"));
}

TEST(Loop, TheLastValidationComesAfterTheLastRound) {
  Training run({2}, /*rounds=*/true);
  run.options.val_freq = 2;
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t0.0", "t0.1", "v0.0", "validated", "rounds", "v1.0", "validated", "drained"));
}

TEST(Loop, WithoutValidationDataNothingIsValidated) {
  Training run({1});
  run.options.validation = {};
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.witness.seen, ElementsAre("t0.0", "drained"));
}

TEST(Loop, ASecondTrainingGoesOnWhereTheFirstHasEnded) {
  Training run({1});
  ASSERT_TRUE(run.train().ok());
  ASSERT_TRUE(run.train().ok());
  EXPECT_THAT(run.training.begun, ElementsAre(0, 1));
  EXPECT_THAT(run.witness.seen,
              ElementsAre("t0.0", "v0.0", "validated", "drained", "t1.0", "v1.0", "validated", "drained"));
}

TEST(Loop, AnEpochWithoutBatchesFailsAndOneWithFewerIsSaid) {
  Training run({3, 1, 0});
  run.options.epochs = 3;
  EXPECT_THAT(run.train().message(), HasSubstr("train_loader gave no batch in epoch 3, after 1 batch in epoch 2"));
  EXPECT_THAT(run.witness.warnings, ElementsAre("the training loop gave 1 batch in epoch 2, and 3 batches in epoch 1"));
}

TEST(Loop, AValidationWithoutBatchesFails) {
  Training run({1});
  run.options.epochs = 2;
  run.validation = Counter({2, 0});
  EXPECT_THAT(run.train().message(), HasSubstr("val_loader gave no batch in validation 2"));
}

TEST(Loop, AsksThePollBeforeEachBatch) {
  Training run({3});
  int asked = 0;
  run.poll = [&] { return ++asked == 2 ? cancelled("interrupted") : Status(); };
  EXPECT_EQ(run.train().code(), Code::kCancelled);
  EXPECT_THAT(run.witness.seen, ElementsAre("t0.0"));
}

TEST(Feeder, ASweepEndsWhenSomethingElseIsDone) {
  Witness witness;
  Position position;
  Feeder feeder(witness, position, {});
  ASSERT_TRUE(feeder.validate({}, Sweep::kEvaluation).ok());
  ASSERT_TRUE(feeder.train({}).ok());
  ASSERT_TRUE(feeder.validate({}, Sweep::kValidation).ok());
  ASSERT_TRUE(feeder.predict({}).ok());
  EXPECT_THAT(witness.seen, ElementsAre("v0.0", "evaluated", "t0.0", "v1.0", "validated", "p0.0", "drained"));
}

TEST(Feeder, APredictionAfterOneThatWasInterruptedHasItsOwnOutputs) {
  Witness witness;
  Position position;
  bool interrupts = false;
  Feeder feeder(witness, position, [&] { return std::exchange(interrupts, false) ? cancelled("Ctrl-C") : Status(); });
  EXPECT_EQ(feeder.predict({})->size(), 1U);
  witness.on_feed = [&] { interrupts = true; };
  EXPECT_EQ(feeder.predict({}).status().code(), Code::kCancelled);
  witness.on_feed = {};
  EXPECT_EQ(feeder.predict({})->size(), 3U) << "of the third, not of the second";
  EXPECT_TRUE(witness.record().take_outputs().empty());
}

}  // namespace
}  // namespace ravnest::train
