#include "ravnest/train/node/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ravnest/base/file.h"

namespace ravnest::train {
namespace {

using stage::Offer;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::PassKind;
using wire::Report;

class Record : public testing::Test {
 protected:
  Record()
      : record_({.loss_file = folder_ / "losses.txt",
                 .accuracy_file = folder_ / "accuracies.txt",
                 .leaf = "node_2",
                 .warn = [this](const std::string& line) { warnings_.push_back(line); }}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Record() override { std::filesystem::remove_all(folder_); }

  std::string losses() const { return content("losses.txt"); }
  std::string accuracies() const { return content("accuracies.txt"); }
  // Nothing where there is no file.
  std::string content(const char* name) const {
    auto read = read_file(folder_ / name);
    return read.ok() ? std::move(read).value() : std::string();
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("run_record_" + std::to_string(::getpid()));
  std::vector<std::string> warnings_;
  RunRecord record_;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(Record, ALossPerUpdateIsTheSumOfItsWindow) {
  for (int i = 0; i < 4; ++i) record_.expect({.update = i % 2 == 1}, 10);
  for (const double loss : {1.0, 2.0, 3.0, 4.5}) ASSERT_TRUE(record_.on_report({.loss = loss, .outputs = {}}).ok());
  EXPECT_EQ(losses(), "3.0000\n7.5000\n");
  EXPECT_EQ(record_.samples_trained(), 40);
}

TEST_F(Record, PartsOfABatchCountByTheirWeight) {
  record_.expect({.part = 0, .parts = 2, .weight = 0.75, .update = false}, 3);
  record_.expect({.part = 1, .parts = 2, .weight = 0.25, .update = true}, 1);
  ASSERT_TRUE(record_.on_report({.loss = 2, .outputs = {}}).ok());
  ASSERT_TRUE(record_.on_report({.loss = 4, .outputs = {}}).ok());
  EXPECT_EQ(losses(), "2.5000\n");
}

TEST_F(Record, ASweepsAccuracyIsOverAllItsSamples) {
  for (int i = 0; i < 2; ++i) record_.expect({.kind = PassKind::kValidate}, 0);
  ASSERT_TRUE(record_.expect_end(Sweep::kValidation).ok());
  ASSERT_TRUE(record_.on_report({.samples = 60, .correct = 60, .outputs = {}}).ok());
  EXPECT_FALSE(record_.accuracy());
  ASSERT_TRUE(record_.on_report({.samples = 20, .correct = 5, .outputs = {}}).ok());
  EXPECT_EQ(record_.accuracy(), 81.25);
  EXPECT_EQ(accuracies(), "81.25\n");
}

TEST_F(Record, ASweepMayEndAfterItsLastReport) {
  record_.expect({.kind = PassKind::kValidate}, 0);
  ASSERT_TRUE(record_.on_report({.samples = 4, .correct = 1, .outputs = {}}).ok());
  ASSERT_TRUE(record_.expect_end(Sweep::kEvaluation).ok());
  EXPECT_EQ(record_.accuracy(), 25.0);
  EXPECT_EQ(accuracies(), "") << "an evaluation is only asked for";
}

TEST_F(Record, WhereNothingCanBeCountedThereIsNoAccuracy) {
  record_.expect({.kind = PassKind::kValidate}, 0);
  ASSERT_TRUE(record_.expect_end(Sweep::kValidation).ok());
  ASSERT_TRUE(record_.on_report({.samples = 0, .correct = 0, .outputs = {}}).ok());
  EXPECT_FALSE(record_.accuracy());
  EXPECT_EQ(accuracies(), "");
}

TEST_F(Record, OutputsAreKeptUntilTheyAreTaken) {
  record_.expect({.kind = PassKind::kPredict}, 0);
  ASSERT_TRUE(record_.on_report({.outputs = {wire::Tensor{}, wire::Tensor{}}}).ok());
  const auto outputs = record_.take_outputs();
  ASSERT_EQ(outputs.size(), 1);
  EXPECT_EQ(outputs[0].size(), 2);
  EXPECT_TRUE(record_.take_outputs().empty());
}

TEST_F(Record, AReportIsNotTakenForThatOfAPassThatWasRetracted) {
  record_.expect({.kind = PassKind::kTrain}, 4);
  record_.retract();
  record_.expect({.kind = PassKind::kPredict}, 4);
  ASSERT_TRUE(record_.on_report({.outputs = {wire::Tensor{}}}).ok());
  EXPECT_EQ(record_.take_outputs().size(), 1U);
  EXPECT_EQ(record_.samples_trained(), 0U);
}

TEST_F(Record, ALossThatIsNotFiniteIsToldWhenItBeginsAndCounted) {
  record_.begin_training(0, 2, 4);
  // Two batches to a step; the last epoch is bad from its second batch on, and once more after a good one.
  const std::vector<double> losses = {1, 2, kInfinity, 3, 1, -kNan, kNan, 2, kInfinity, 1};
  for (std::uint64_t i = 0; i < losses.size(); ++i) {
    record_.expect({.update = i % 2 == 1, .epoch = i / 4, .index = i % 4}, 10);
    ASSERT_TRUE(record_.on_report({.loss = losses[i], .outputs = {}}).ok());
  }
  EXPECT_THAT(warnings_, ElementsAre("the loss that node_2 computed in step 2 (epoch 1, batch 3) is inf",
                                     "the loss that node_2 computed in step 3 (epoch 2, batch 2) is nan",
                                     "the loss that node_2 computed in step 5 (epoch 3, batch 1) is inf"));
  EXPECT_EQ(record_.bad_losses(), (report::BadLosses{.steps = 4, .first = 2, .last = 5}));
  record_.begin_training(3, 1, 1);
  EXPECT_EQ(record_.bad_losses(), report::BadLosses());
}

TEST_F(Record, ALossThatIsNotFiniteMayBeAFailure) {
  record_.stop_at_nan(true);
  for (int i = 0; i < 2; ++i) record_.expect({.update = true}, 10);
  ASSERT_TRUE(record_.on_report({.loss = 1, .outputs = {}}).ok());
  const Status stopped = record_.on_report({.loss = -kInfinity, .outputs = {}});
  EXPECT_EQ(stopped.code(), Code::kInvalid);
  EXPECT_EQ(stopped.message(),
            "the loss that node_2 computed in step 2 (epoch 1, batch 1) is -inf, and stop_at_nan ends the run there");
  EXPECT_EQ(losses(), "1.0000\n-inf\n");
}

// Of a checkpoint's batch, whichever comes first: its report, the round that remembers it, or that it holds.
TEST_F(Record, HowAllStoodBehindABatchIsKeptForACheckpoint) {
  for (int i = 0; i < 6; ++i) record_.expect({.update = i % 2 == 1}, 10);
  const auto report = [&] { ASSERT_TRUE(record_.on_report({.loss = 1, .outputs = {}}).ok()); };
  report();
  report();
  record_.remember(2);
  report();
  record_.keep_as(40);
  EXPECT_EQ(record_.mark(40)->updates, 1U);
  EXPECT_EQ(record_.mark(40)->window_loss, 0);
  record_.remember(5);
  record_.keep_as(80);
  EXPECT_FALSE(record_.mark(80));
  report();
  report();
  EXPECT_EQ(record_.mark(80)->updates, 2U);
  EXPECT_EQ(record_.mark(80)->window_loss, 1);
}

TEST_F(Record, TheFirstCheckpointAfterAValidationHasItsAccuracy) {
  const auto train = [&](std::uint64_t trained, std::uint64_t checkpoint) {
    record_.expect({.update = true}, 10);
    ASSERT_TRUE(record_.on_report({.loss = 1, .outputs = {}}).ok());
    record_.remember(trained);
    record_.keep_as(checkpoint);
  };
  record_.expect({.kind = PassKind::kValidate}, 0);
  ASSERT_TRUE(record_.expect_end(Sweep::kValidation).ok());
  ASSERT_TRUE(record_.on_report({.samples = 4, .correct = 1, .outputs = {}}).ok());
  train(1, 10);
  EXPECT_EQ(record_.mark(10)->accuracy, 25.0);
  train(2, 20);
  EXPECT_FALSE(record_.mark(20)->accuracy);
}

TEST_F(Record, AReportThatNobodyAskedForIsAFailure) {
  EXPECT_EQ(record_.on_report({.pass = 3, .outputs = {}}).code(), Code::kInternal);
}

TEST_F(Record, AFileThatCanNotBeWrittenIsNamed) {
  RunRecord elsewhere({.loss_file = folder_ / "missing" / "losses.txt"});
  elsewhere.expect({}, 1);
  EXPECT_THAT(elsewhere.on_report({.outputs = {}}).message(), HasSubstr("missing/losses.txt"));
}

}  // namespace
}  // namespace ravnest::train
