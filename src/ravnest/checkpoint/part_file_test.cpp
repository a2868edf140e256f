#include "ravnest/checkpoint/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/checkpoint/testing/checkpoints.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::float_payload;
using ::testing::HasSubstr;
using testing::parameter;
using testing::small_stage;
using testing::told;

class PartFileTest : public test::FolderTest {
 protected:
  Part through_the_file(const Part& part) const {
    const Result<PartEntry> entry = write_part(folder_, part);
    EXPECT_TRUE(entry.ok()) << entry.status();
    const Result<Part> read = read_part(folder_ / entry->file);
    EXPECT_TRUE(read.ok()) << read.status();
    return *read;
  }
  // Written, its metadata changed by hand, and read again.
  Status refusal(const std::string& key, const std::string& from, const std::string& to) const {
    static_cast<void>(write_part(folder_, small_stage(1)).value());
    const fs::path path = folder_ / "stage_1.safetensors";
    archive::Safetensors contents = archive::read_safetensors(path).value();
    std::string& value = contents.metadata[key];
    const std::size_t at = value.find(from);
    EXPECT_NE(at, std::string::npos) << value;
    value.replace(at, from.size(), to);
    EXPECT_EQ(archive::write_safetensors(path, contents), Status());
    const Status status = read_part(path).status();
    EXPECT_THAT(status.message(), HasSubstr(path.string()));
    return status;
  }
};

TEST_F(PartFileTest, PartComesThroughWhole) {
  for (const int stage : {0, 1}) {
    const Part part = small_stage(stage);
    const Part read = through_the_file(part);
    EXPECT_EQ(told(read), told(part));
    EXPECT_EQ(read.optimizer.name, "Adam");
    EXPECT_EQ(read.optimizer.groups, part.optimizer.groups);
    EXPECT_EQ(read.optimizer.values, part.optimizer.values);
  }
}

TEST_F(PartFileTest, OptionsKeepTheirKindsAndAllNumbers) {
  Part part = small_stage(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  part.optimizer.groups[0].options = {{"whole", std::int64_t{1}},
                                      {"number", 1.0},
                                      {"least", std::numeric_limits<std::int64_t>::min()},
                                      {"tenth", 0.1},
                                      {"endless", kInfinity},
                                      {"text", std::string("Infinity")},
                                      {"flag", true},
                                      {"none", std::vector<double>{}},
                                      {"list", std::vector<double>{1, -kInfinity, 0.3}}};
  EXPECT_EQ(through_the_file(part).optimizer.groups, part.optimizer.groups);
}

TEST_F(PartFileTest, OtherToolsFindTheModelsTensorsUnderTheirOwnNames) {
  const PartEntry entry = write_part(folder_, small_stage(1)).value();
  const archive::Safetensors contents = archive::read_safetensors(folder_ / "stage_1.safetensors").value();
  EXPECT_THAT(testing::names_of(contents.tensors),
              ::testing::UnorderedElementsAre("body.weight", "body.frozen", "body.running_mean", "embedding.weight",
                                              "buffer.body.mask", "optimizer.body.weight.exp_avg",
                                              "optimizer.body.weight.step", "record.criterion.margin"));
  EXPECT_EQ(contents.metadata.at("format"), "pt");
  EXPECT_THAT(entry.tensors, ElementsAre("body.weight", "body.frozen", "body.running_mean", "embedding.weight"));
  EXPECT_EQ(entry.tensor_bytes, 4 * (3 + 1 + 2 + 4));
}

TEST_F(PartFileTest, EntryHasSizeAndDigestOfTheFile) {
  const PartEntry entry = write_part(folder_ / "new" / "folders", small_stage(0)).value();
  const std::string content = read_file(folder_ / "new" / "folders" / "stage_0.safetensors").value();
  EXPECT_EQ(entry.file, "stage_0.safetensors");
  EXPECT_EQ(entry.holder, "node_0");
  EXPECT_EQ(entry.bytes, content.size());
  EXPECT_EQ(entry.sha256, identity::sha256(as_byte_span(content)).value());
}

TEST_F(PartFileTest, ModelWhoseNamesLookLikeOtherKindsCollidesWithNothing) {
  Part part = small_stage(0);
  part.order = {"w", "optimizer.w.exp_avg", "buffer.w", "_optimizer.w.exp_avg", "record.criterion.margin"};
  part.weights.clear();
  float value = 0;
  for (const std::string& name : part.order) part.weights.emplace_back(name, parameter(float_payload({1}, {++value})));
  part.buffers = {{"w", float_payload({1}, {21})}};
  part.optimizer.groups[0].parameters = {"w", "optimizer.w.exp_avg"};
  part.optimizer.tensors = {{"w", {{"exp_avg", float_payload({1}, {22})}}},
                            {"w.exp", {{"avg.x", float_payload({1}, {23})}}},
                            {"w.exp.avg", {{"x", float_payload({1}, {24})}}},
                            {"optimizer.w.exp_avg", {{"exp_avg", float_payload({1}, {25})}}}};
  part.record_tensors = {{"criterion", {{"margin", float_payload({1}, {26})}}}};
  EXPECT_EQ(told(through_the_file(part)), told(part));
}

TEST_F(PartFileTest, TiedNamesAreWrittenOnceAndTiedAgain) {
  const Part read = through_the_file(small_stage(1));
  EXPECT_TRUE(archive::same_tensor(testing::tensor(read.weights, "embedding.weight"),
                                   testing::tensor(read.weights, "head.weight")));
  EXPECT_EQ(testing::names_of(read.weights), (std::vector<std::string>{"embedding.weight", "body.weight", "body.frozen",
                                                                       "body.running_mean", "head.weight"}))
      << "in the model's order";
}

TEST_F(PartFileTest, PartWithoutOptimizerOrWeightsIsAPart) {
  Part part;
  part.name = "empty";
  EXPECT_EQ(told(through_the_file(part)), told(part));
}

TEST_F(PartFileTest, PiecesOfParametersCarryTheirRange) {
  Part part = small_stage(0);
  part.weights = {{"embedding.weight", parameter(float_payload({3}, {1, 2, 3}))}};
  part.optimizer.tensors["embedding.weight"] = testing::moments({3}, {4, 5, 6}, 1);
  part.pieces["embedding.weight"] = {.shape = {2, 2}, .offset = 1, .length = 3};
  EXPECT_EQ(through_the_file(part).pieces, part.pieces);
  part.pieces["embedding.weight"].offset = 2;
  EXPECT_EQ(write_part(folder_, part).status().code(), Code::kInvalid);
  part.pieces["embedding.weight"] = {.shape = {2, 2}, .offset = 0, .length = 4};
  EXPECT_EQ(write_part(folder_, part).status().code(), Code::kInvalid);
}

TEST_F(PartFileTest, PartThatContradictsItselfIsNotWritten) {
  const auto refused = [&](const auto& change) {
    Part part = small_stage(1);
    change(part);
    const Status status = write_part(folder_ / "sub", part).status();
    EXPECT_FALSE(fs::exists(folder_ / "sub"));
    return status;
  };
  EXPECT_THAT(refused([](Part& part) { part.name = "../stage"; }).message(), HasSubstr("no name for a part"));
  EXPECT_THAT(refused([](Part& part) { part.weights.push_back(part.weights[0]); }).message(), HasSubstr("there twice"));
  EXPECT_THAT(refused([](Part& part) { part.order.push_back(part.order[0]); }).message(), HasSubstr("stands twice"));
  EXPECT_THAT(refused([](Part& part) { part.weights[0].first = "other"; }).message(), HasSubstr("\"other\" is no key"));
  EXPECT_THAT(refused([](Part& part) { part.optimizer.groups.push_back(part.optimizer.groups[0]); }).message(),
              HasSubstr("groups twice"));
  EXPECT_THAT(refused([](Part& part) { part.optimizer.name.clear(); }).message(), HasSubstr("has no name"));
  EXPECT_THAT(refused([](Part& part) { part.run = "\xff"; }).message(), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused([](Part& part) { part.records["a"] = "\xff"; }).message(), HasSubstr("not UTF-8"));
}

TEST_F(PartFileTest, MetadataThatContradictThemselvesAreCorrupt) {
  const auto code = [&](const std::string& key, const std::string& from, const std::string& to) {
    return refusal(key, from, to).code();
  };
  EXPECT_EQ(code("ravnest.part", "\"updates\":120", "\"updates\":-1"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.part", "stage_1", "../stage"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.part", "\"copy\":0", "\"copy\":4294967296"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.tensors", "\"optimizer.body.weight.step\"", "\"other\""), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.tensors", "\"step\"", "\"exp_avg\""), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.tensors", "\"margin\"", "\"margin\",\"more\""), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.aliases", "embedding", "embodying"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.parameters", "body.weight", "no.weight"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.optimizer", "\"lr\":1.0", "\"lr\":null"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.order", "body.frozen", "body.weight"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.pieces", "{}", "[]"), Code::kCorrupt);
  EXPECT_EQ(code("ravnest.records", "{}", "{\"a\":1}"), Code::kCorrupt);
}

TEST_F(PartFileTest, LaterVersionIsRefusedWithBothVersions) {
  const Status status = refusal("ravnest.part", "\"version\":1", "\"version\":2");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("format version 2"), HasSubstr("reads version 1")));
}

TEST_F(PartFileTest, FileOfSomethingElseIsInvalid) {
  ASSERT_EQ(archive::write_safetensors(folder_ / "a.safetensors", {{}, {{"a", float_payload({1}, {1})}}}), Status());
  EXPECT_EQ(read_part(folder_ / "a.safetensors").status().code(), Code::kInvalid);
  EXPECT_EQ(read_part_owner(folder_ / "a.safetensors").status().code(), Code::kInvalid);
  EXPECT_EQ(read_part(folder_ / "nothing").status().code(), Code::kNotFound);
}

TEST_F(PartFileTest, OwnerIsReadAlone) {
  static_cast<void>(write_part(folder_, small_stage(1)).value());
  const PartOwner owner = read_part_owner(folder_ / "stage_1.safetensors").value();
  EXPECT_EQ(owner.name, "stage_1");
  EXPECT_EQ(owner.holder, "node_1");
  EXPECT_EQ(owner.run, "run a");
  EXPECT_EQ(owner.updates, 120);
}

TEST_F(PartFileTest, DiskWithoutRoomLeavesTheEarlierFileWhole) {
  const test::SmallDisk disk(folder_ / "disk", 64 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "nothing can be mounted here";
  static_cast<void>(write_part(disk.path(), small_stage(0)).value());
  const auto before = testing::contents_of(disk.path());
  Part large = small_stage(0);
  large.weights[0].second = parameter(float_payload({50'000}, std::vector<float>(50'000, 1.0F)));
  const Status status = write_part(disk.path(), large).status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("stage_0.safetensors"), HasSubstr("No space left")));
  EXPECT_EQ(testing::contents_of(disk.path()), before);
}

TEST_F(PartFileTest, WriterThatWasKilledLeavesNothingForTheNext) {
  Part part = small_stage(0);
  part.weights[0].second = parameter(float_payload({1 << 20}, std::vector<float>(1 << 20, 1.0F)));
  for (int i = 1; i <= 10; ++i) {
    const int child = test::start_child([&] { return static_cast<int>(write_part(folder_, part).status().code()); });
    test::kill_after(child, std::chrono::microseconds(700 * i));
    const fs::path path = folder_ / "stage_0.safetensors";
    if (fs::exists(path)) EXPECT_TRUE(read_part(path).ok()) << "whole or not at all";
  }
  static_cast<void>(write_part(folder_, part).value());
  EXPECT_THAT(test::names_in(folder_), ElementsAre("stage_0.safetensors"));
}

}  // namespace
}  // namespace ravnest::checkpoint
