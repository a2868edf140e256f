#include "ravnest/data/dataset.h"

#include <ATen/ATen.h>

#include "ravnest/archive/testing/files.h"
#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/data/batches.h"

namespace ravnest::data {
namespace {

using archive::testing::expect_failure;
using archive::testing::npy_of;
using archive::testing::raw;

class DatasetTest : public test::FolderTest {
 protected:
  // Four samples of six numbers, 0 to 23, with the targets 0, 1, 2, 1.
  DataOptions options(std::string_view inputs_descr = "|u1", std::string_view targets_descr = "<i4") {
    std::vector<std::uint8_t> inputs(24);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<std::uint8_t>(i);
    const std::string bytes = inputs_descr == "|u1"   ? raw(inputs)
                              : inputs_descr == "<f8" ? raw(std::vector<double>(inputs.begin(), inputs.end()))
                                                      : raw(std::vector<std::uint16_t>(inputs.begin(), inputs.end()));
    const std::string targets = targets_descr == "<i4"   ? raw<std::int32_t>({0, 1, 2, 1})
                                : targets_descr == "<f4" ? raw<float>({0, 1, 2, 1})
                                                         : raw<std::uint64_t>({0, 1, 2, 1});
    EXPECT_EQ(write_file_atomically(folder_ / "x.npy", npy_of(inputs_descr, "(4, 6)", bytes)), Status());
    EXPECT_EQ(write_file_atomically(folder_ / "y.npy", npy_of(targets_descr, "(4,)", targets)), Status());
    return {.format = "npy", .inputs = {folder_ / "x.npy"}, .targets = {folder_ / "y.npy"}};
  }
};

bool same(const at::Tensor& a, const at::Tensor& b) { return a.scalar_type() == b.scalar_type() && at::equal(a, b); }

TEST_F(DatasetTest, InputsStayAsTheyAreAndClassesBecomeInt64) {
  const Result<Dataset> dataset = load_dataset(options());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 4);
  EXPECT_TRUE(same(dataset->inputs, at::arange(24, at::kByte).reshape({4, 6})));
  EXPECT_TRUE(same(dataset->targets, at::tensor({0, 1, 2, 1}, at::kLong)));
}

TEST_F(DatasetTest, RowsShapeScaleAndOneHotAreApplied) {
  DataOptions wanted = options();
  wanted.first = 1;
  wanted.last = 3;
  wanted.shape = {1, 2, 3};
  wanted.scale = 1.0 / 255;
  wanted.one_hot = 3;
  const Result<Dataset> dataset = load_dataset(wanted);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE(same(dataset->inputs, at::arange(6, 18, at::kFloat).reshape({2, 1, 2, 3}).mul(1.0 / 255)));
  EXPECT_TRUE(same(dataset->targets, at::tensor({0.F, 1.F, 0.F, 0.F, 0.F, 1.F}).reshape({2, 3})));
}

TEST_F(DatasetTest, InputsAreCastBeforeTheyAreScaled) {
  DataOptions wanted = options();
  wanted.inputs_dtype = "float64";
  wanted.scale = 0.1;
  EXPECT_TRUE(same(load_dataset(wanted)->inputs, at::arange(24, at::kDouble).reshape({4, 6}).mul(0.1)));
  wanted.inputs_dtype = "int64";
  expect_failure(load_dataset(wanted), Code::kInvalid, "cannot be scaled by 0.1");
  wanted.inputs_dtype = "floot";
  expect_failure(load_dataset(wanted), Code::kInvalid, "no dtype \"floot\"");
}

TEST_F(DatasetTest, FloatsKeepTheirTypeAndUnsignedNumbersBecomeOnesThatTorchComputesWith) {
  DataOptions wanted = options("<f8", "<f4");
  wanted.scale = 0.5;
  EXPECT_EQ(load_dataset(wanted)->inputs.scalar_type(), at::kDouble);
  EXPECT_EQ(load_dataset(wanted)->targets.scalar_type(), at::kFloat);
  EXPECT_TRUE(same(load_dataset(options("<u2"))->inputs, at::arange(24, at::kInt).reshape({4, 6})));
  expect_failure(load_dataset(options("|u1", "<u8")), Code::kUnsupported, "save them as int64");
}

TEST_F(DatasetTest, WhatDoesNotFitSaysBothNumbers) {
  DataOptions wanted = options();
  wanted.last = 5;
  expect_failure(load_dataset(wanted), Code::kInvalid,
                 "rows [0, 5] were asked for, and " + wanted.inputs[0].string() + " has 4");
  wanted.last = 2;
  wanted.first = 2;
  expect_failure(load_dataset(wanted), Code::kInvalid, "rows [2, 2]");
  wanted = options();
  wanted.shape = {1, 8, 8};
  expect_failure(load_dataset(wanted), Code::kInvalid, "shape [1, 8, 8] does not fit the inputs: a sample has 6");
  wanted.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  expect_failure(load_dataset(wanted), Code::kInvalid, "does not fit");
  wanted = options();
  wanted.one_hot = 2;
  expect_failure(load_dataset(wanted), Code::kInvalid, "target 2 of sample 2 is not one of 2 classes, 0 to 1");
  wanted = options("|u1", "<f4");
  wanted.one_hot = 3;
  expect_failure(load_dataset(wanted), Code::kInvalid, "these are float32");
}

TEST_F(DatasetTest, NoSamplesAreNoDataSet) {
  DataOptions wanted = options();
  ASSERT_EQ(write_file_atomically(folder_ / "x.npy", npy_of("<f4", "(0, 6)", "")), Status());
  ASSERT_EQ(write_file_atomically(folder_ / "y.npy", npy_of("<f4", "(0,)", "")), Status());
  expect_failure(load_dataset(wanted), Code::kInvalid, "no samples");
}

TEST_F(DatasetTest, BatchesAreTheirRowsInMemoryOfTheirOwn) {
  const Dataset dataset = load_dataset(options()).value();
  const Batches batches(dataset.size(), 3, true, 1);
  const std::vector<std::int64_t> rows = batches.rows(0, 0);
  const Dataset part = batch(dataset, rows);
  ASSERT_EQ(part.size(), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::equal(part.inputs[i], dataset.inputs[rows[static_cast<std::size_t>(i)]]));
    EXPECT_TRUE(at::equal(part.targets[i], dataset.targets[rows[static_cast<std::size_t>(i)]]));
  }
  const Dataset whole = batch(dataset, Batches(4, 4, false, 0).rows(0, 0));
  whole.inputs.zero_();
  EXPECT_EQ(dataset.inputs.sum().item<std::int64_t>(), 23 * 12) << "the data set is not written to";
}

TEST_F(DatasetTest, TensorsOutliveTheFilesAndTheOptions) {
  const Dataset dataset = load_dataset(options()).value();
  std::filesystem::remove(folder_ / "x.npy");
  EXPECT_EQ(dataset.inputs[3][5].item<std::int64_t>(), 23);
}

}  // namespace
}  // namespace ravnest::data
