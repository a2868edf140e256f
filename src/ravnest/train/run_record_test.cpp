#include "ravnest/train/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/file.h"

namespace ravnest::train {
namespace {

using pipeline::Offer;
using testing::HasSubstr;
using wire::PassKind;
using wire::Report;

class Record : public testing::Test {
 protected:
  Record() : record_({.loss_file = folder_ / "losses.txt", .accuracy_file = folder_ / "accuracies.txt"}) {
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
  RunRecord record_;
};

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
