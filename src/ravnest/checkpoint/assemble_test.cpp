#include "ravnest/checkpoint/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/checkpoint/testing/checkpoints.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::float_payload;
using testing::floats_of;
using ::testing::HasSubstr;
using testing::parameter;
using testing::small_order;
using testing::small_stage;
using testing::tensor;
using testing::write_small;

std::vector<Part> two_stages() { return {small_stage(0), small_stage(1)}; }

Status refusal(const std::function<void(std::vector<Part>&)>& change) {
  std::vector<Part> parts = two_stages();
  change(parts);
  const Result<Whole> whole = assemble(parts);
  EXPECT_FALSE(whole.ok());
  return whole.status();
}

TEST(Assemble, PartsBecomeTheWholeModelWhateverTheirOrder) {
  for (const bool turned : {false, true}) {
    std::vector<Part> parts = two_stages();
    if (turned) std::swap(parts[0], parts[1]);
    const Whole whole = assemble(parts).value();
    EXPECT_EQ(testing::names_of(whole.weights), small_order());
    EXPECT_THAT(floats_of(tensor(whole.weights, "body.weight")), ElementsAre(9, 10, 120));
    EXPECT_TRUE(archive::same_tensor(tensor(whole.weights, "embedding.weight"), tensor(whole.weights, "head.weight")));
    EXPECT_THAT(testing::names_of(whole.buffers), ElementsAre("body.mask"));
    ASSERT_EQ(whole.optimizer.groups.size(), 1);
    EXPECT_THAT(whole.optimizer.groups[0].parameters, ElementsAre("embedding.weight", "body.weight"));
    EXPECT_THAT(floats_of(tensor(whole.optimizer.tensors.at("body.weight"), "exp_avg")), ElementsAre(14, 15, 16));
    EXPECT_EQ(whole.optimizer.values.at("body.weight").size(), 2);
    EXPECT_EQ(whole.records.at("stage_0").at("schedules"), "{\"steps\":3}");
    EXPECT_THAT(floats_of(tensor(whole.record_tensors.at("stage_1").at("criterion"), "margin")), ElementsAre(17));
    EXPECT_EQ(whole.optimizer.name, "Adam");
    EXPECT_EQ(whole.updates, 120);
  }
}

TEST(Assemble, NothingIsCopied) {
  const std::vector<Part> parts = two_stages();
  const Whole whole = assemble(parts).value();
  EXPECT_EQ(tensor(whole.weights, "body.weight").storage, tensor(parts[1].weights, "body.weight").storage);
  EXPECT_EQ(tensor(whole.optimizer.tensors.at("body.weight"), "exp_avg").storage,
            tensor(parts[1].optimizer.tensors.at("body.weight"), "exp_avg").storage);
}

TEST(Assemble, WeightThatDiffersBetweenPartsIsNamed) {
  const Status status = refusal([](std::vector<Part>& parts) {
    parts[0].weights[0].second = parameter(float_payload({2, 2}, {0, 2, 3, 4}));
  });
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("\"embedding.weight\""), HasSubstr("stage_0"), HasSubstr("stage_1")));
}

TEST(Assemble, TiedWeightThatDiffersUnderItsOtherNameIsNamed) {
  const Status status = refusal([](std::vector<Part>& parts) {
    parts.push_back(parts[1]);
    parts[2].name = "stage_2";
    parts[2].optimizer = {};
    parts[2].record_tensors.clear();
    parts[2].buffers.clear();
    parts[2].weights = {{"head.weight", parameter(float_payload({2, 2}, {1, 1, 1, 1}))}};
  });
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("embedding.weight"), HasSubstr("stage_2")));
}

TEST(Assemble, OptimizerTensorOrBufferThatDiffersIsNamed) {
  EXPECT_THAT(refusal([](std::vector<Part>& parts) {
                parts[0].optimizer.tensors["body.weight"] = testing::moments({3}, {1, 15, 16}, 120);
              }).message(),
              AllOf(HasSubstr("exp_avg"), HasSubstr("\"body.weight\"")));
  EXPECT_THAT(refusal([](std::vector<Part>& parts) {
                parts[0].buffers = {{"body.mask", float_payload({3}, {1, 2, 3})}};
              }).message(),
              HasSubstr("buffer \"body.mask\""));
  EXPECT_THAT(refusal([](std::vector<Part>& parts) {
                parts[0].optimizer.values["body.weight"] = {{"calls", 0.0}};
              }).message(),
              HasSubstr("\"body.weight\""));
}

TEST(Assemble, MissingNamesAreListed) {
  const Status status = refusal([](std::vector<Part>& parts) { parts.pop_back(); });
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("body.weight, body.frozen, body.running_mean, head.weight"));
}

TEST(Assemble, PartsOfTwoRunsUpdatesPlansOrOptimizersDoNotBelongTogether) {
  using Parts = std::vector<Part>;
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].run = "run b"; }).message(),
              AllOf(HasSubstr("run a"), HasSubstr("run b")));
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].updates = 7; }).message(), AllOf(HasSubstr("120"), HasSubstr("7")));
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].plan = "plan b"; }).message(), HasSubstr("plan b"));
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].copy = 1; }).message(), HasSubstr("copy 1"));
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].order.pop_back(); }).message(), HasSubstr("4 keys"));
  EXPECT_THAT(refusal([](Parts& parts) { std::swap(parts[1].order[0], parts[1].order[1]); }).message(),
              HasSubstr("another order"));
  EXPECT_THAT(refusal([](Parts& parts) { parts[1].optimizer.name = "SGD"; }).message(),
              AllOf(HasSubstr("Adam"), HasSubstr("SGD")));
  EXPECT_EQ(assemble({}).status().code(), Code::kInvalid);
}

TEST(Assemble, GroupsWithTheSameOptionsAreOne) {
  std::vector<Part> parts = two_stages();
  parts[1].optimizer.groups.push_back({parts[1].optimizer.groups[0].options, {}});
  parts[1].optimizer.groups[0].options["lr"] = 0.5;
  const Whole whole = assemble(parts).value();
  ASSERT_EQ(whole.optimizer.groups.size(), 2);
  EXPECT_EQ(std::get<double>(whole.optimizer.groups[0].options.at("lr")), 1.0);
  EXPECT_EQ(std::get<double>(whole.optimizer.groups[1].options.at("lr")), 0.5);
}

TEST(Assemble, GroupsOfTheSameNumberAreOneThoughTheirOptionsAreAlike) {
  std::vector<Part> parts = two_stages();
  for (Part& part : parts) part.optimizer.groups.push_back({part.optimizer.groups[0].options, {}});
  std::swap(parts[1].optimizer.groups[0].parameters, parts[1].optimizer.groups[1].parameters);
  const Whole whole = assemble(parts).value();
  ASSERT_EQ(whole.optimizer.groups.size(), 2);
  EXPECT_THAT(whole.optimizer.groups[0].parameters, ElementsAre("embedding.weight"));
  EXPECT_THAT(whole.optimizer.groups[1].parameters, ElementsAre("body.weight"));
}

TEST(Assemble, ParameterInTwoGroupsIsNamed) {
  const Status status = refusal([](std::vector<Part>& parts) {
    parts[1].optimizer.groups[0].options["lr"] = 0.5;
    parts[1].optimizer.groups[0].parameters.push_back("head.weight");
  });
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("\"embedding.weight\""));
}

// The whole's embedding.weight {1, 2, 3, 4} as two shards.
std::vector<Part> two_shards() {
  std::vector<Part> parts;
  for (const int shard : {0, 1}) {
    Part part = small_stage(0);
    part.name = text("shard_", shard);
    part.order = {"embedding.weight"};
    const bool first = shard == 0;
    part.weights = {{"embedding.weight", parameter(first ? float_payload({3}, {1, 2, 3}) : float_payload({1}, {4}))}};
    part.pieces["embedding.weight"] = {.shape = {2, 2}, .offset = first ? 0U : 3U, .length = first ? 3U : 1U};
    part.optimizer.tensors["embedding.weight"] =
        first ? testing::moments({3}, {5, 6, 7}, 9) : testing::moments({1}, {8}, 9);
    parts.push_back(part);
  }
  return parts;
}

TEST(Assemble, PiecesOfAParameterAreJoined) {
  std::vector<Part> parts = two_shards();
  std::swap(parts[0], parts[1]);
  const Whole whole = assemble(parts).value();
  const archive::Payload& weight = tensor(whole.weights, "embedding.weight");
  EXPECT_THAT(weight.sizes, ElementsAre(2, 2));
  EXPECT_THAT(floats_of(weight), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(weight.requires_grad);
  const auto& state = whole.optimizer.tensors.at("embedding.weight");
  EXPECT_THAT(floats_of(tensor(state, "exp_avg")), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(floats_of(tensor(state, "step")), ElementsAre(9));
}

TEST(Assemble, MissingOrOverlappingPiecesAreNamed) {
  std::vector<Part> parts = two_shards();
  parts.pop_back();
  EXPECT_THAT(assemble(parts).status().message(), HasSubstr("elements 3 to 3"));
  parts = two_shards();
  parts.erase(parts.begin());
  EXPECT_THAT(assemble(parts).status().message(), HasSubstr("elements 0 to 2"));
  parts = two_shards();
  parts[1].pieces["embedding.weight"].offset = 2;
  EXPECT_THAT(assemble(parts).status().message(), HasSubstr("overlap"));
  parts = two_shards();
  parts[1].pieces["embedding.weight"].shape = {4};
  EXPECT_EQ(assemble(parts).status().code(), Code::kCorrupt);
}

TEST(Select, GivesAnotherCutWhatItNeeds) {
  const Whole whole = assemble(two_stages()).value();
  const Part part = select(whole, {"body.frozen", "body.weight", "embedding.weight"}, {"body.mask"}).value();
  EXPECT_THAT(testing::names_of(part.weights), ElementsAre("embedding.weight", "body.weight", "body.frozen"));
  EXPECT_THAT(testing::names_of(part.buffers), ElementsAre("body.mask"));
  EXPECT_THAT(part.optimizer.groups[0].parameters, ElementsAre("embedding.weight", "body.weight"));
  EXPECT_EQ(part.optimizer.tensors.size(), 2);
  EXPECT_EQ(part.order, small_order());
}

TEST(Select, GroupsStayInTheirPlacesAndTiedNamesFindTheirState) {
  const Whole whole = assemble(two_stages()).value();
  const Part head = select(whole, {"head.weight"}, {}).value();
  EXPECT_THAT(head.optimizer.groups[0].parameters, ElementsAre("head.weight"));
  EXPECT_THAT(floats_of(tensor(head.optimizer.tensors.at("head.weight"), "exp_avg")), ElementsAre(5, 6, 7, 8));
  const Part none = select(whole, {"body.running_mean"}, {}).value();
  ASSERT_EQ(none.optimizer.groups.size(), 1);
  EXPECT_THAT(none.optimizer.groups[0].parameters, ElementsAre());
}

TEST(Select, NamesOfAnotherModelAreListed) {
  const Whole whole = assemble(two_stages()).value();
  EXPECT_THAT(select(whole, {"body.weight", "body.bias"}, {}).status().message(), HasSubstr("weight body.bias"));
  EXPECT_EQ(select(whole, {}, {"mask"}).status().code(), Code::kNotFound);
}

class ReadWhole : public test::FolderTest {};

TEST_F(ReadWhole, FilesBecomeOneModel) {
  const Checkpoint checkpoint = write_small(folder_);
  const Whole whole = read_whole(checkpoint).value();
  const Whole direct = assemble(two_stages()).value();
  EXPECT_EQ(archive::testing::shown(whole.weights), archive::testing::shown(direct.weights));
  EXPECT_TRUE(testing::same_elements(whole.weights, direct.weights));
  EXPECT_EQ(read_part_of(checkpoint, "stage_1").value().holder, "node_1");
  EXPECT_THAT(read_part_of(checkpoint, "stage_7").status().message(), HasSubstr("stage_0, stage_1"));
}

TEST_F(ReadWhole, MissingPartsAreNamedWithTheirWriters) {
  const Checkpoint checkpoint = write_small(folder_);
  fs::remove(checkpoint.folder / "stage_1.safetensors");
  const Status status = read_whole(checkpoint).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("stage_1.safetensors (of node_1)"), HasSubstr("copy them")));
}

TEST_F(ReadWhole, PartOfAnotherUpdateIsNotTaken) {
  const Checkpoint checkpoint = write_small(folder_);
  static_cast<void>(write_part(checkpoint.folder, small_stage(1, 80)).value());
  EXPECT_EQ(read_whole(checkpoint).status().code(), Code::kCorrupt);
}

TEST_F(ReadWhole, EachClusterHasACopyAndMoreClustersTakeThemInTurn) {
  Checkpoint checkpoint = write_small(folder_);
  for (const int stage : {0, 1}) {
    Part part = small_stage(stage);
    part.name = text("cluster_1_stage_", stage);
    part.copy = 1;
    if (stage == 1) part.weights[0].second = parameter(float_payload({3}, {0, 0, 0}));
    checkpoint.manifest.parts.push_back(write_part(checkpoint.folder, part).value());
  }
  EXPECT_EQ(copies(checkpoint.manifest), 2);
  EXPECT_THAT(floats_of(tensor(read_whole(checkpoint, 0).value().weights, "body.weight")), ElementsAre(9, 10, 120));
  EXPECT_THAT(floats_of(tensor(read_whole(checkpoint, 1).value().weights, "body.weight")), ElementsAre(0, 0, 0));
  EXPECT_THAT(floats_of(tensor(read_whole(checkpoint, 2).value().weights, "body.weight")), ElementsAre(9, 10, 120));
}

}  // namespace
}  // namespace ravnest::checkpoint
