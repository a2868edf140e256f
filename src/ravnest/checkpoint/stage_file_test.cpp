#include "ravnest/checkpoint/stage_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/checkpoint/testing/saved_stage.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::float_payload;
using testing::floats_of;
using ::testing::HasSubstr;
using testing::stage_of_three;

class StageFileTest : public ::testing::Test {
 protected:
  // Saved, its metadata changed by hand, and written again.
  Result<SavedStage> load_changed(const std::string& key, const std::string& from, const std::string& to) const {
    EXPECT_EQ(save_stage(path_, stage_of_three(1)), Status());
    archive::Safetensors contents = archive::read_safetensors(path_).value();
    std::string& value = contents.metadata[key];
    const std::size_t at = value.find(from);
    EXPECT_NE(at, std::string::npos) << value;
    value.replace(at, from.size(), to);
    EXPECT_EQ(archive::write_safetensors(path_, contents), Status());
    return load_stage(path_);
  }

  testing::TemporaryFolder folder_;
  fs::path path_ = stage_file(folder_.path() / "trained", 0, "node_1");
};

TEST_F(StageFileTest, LiesInTheFolderOfItsClusterUnderTheNameOfItsNode) {
  EXPECT_EQ(stage_file("trained", 2, "node_11"), fs::path("trained/cluster_2/node_11.safetensors"));
}

TEST_F(StageFileTest, ComesThroughWholeIntoFoldersThatWereNotThere) {
  const SavedStage saved = stage_of_three(1);
  ASSERT_EQ(save_stage(path_, saved), Status());
  const Result<SavedStage> loaded = load_stage(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->plan, saved.plan);
  EXPECT_EQ(loaded->run, saved.run);
  EXPECT_EQ(loaded->node, saved.node);
  EXPECT_EQ(loaded->cluster, saved.cluster);
  EXPECT_EQ(loaded->stage, saved.stage);
  EXPECT_EQ(loaded->stages, saved.stages);
  EXPECT_EQ(loaded->updates, saved.updates);
  EXPECT_EQ(loaded->order, saved.order);
  EXPECT_EQ(loaded->nodes, saved.nodes);
  EXPECT_EQ(testing::names_of(loaded->weights), testing::names_of(saved.weights)) << "in the model's order";
  EXPECT_TRUE(archive::testing::same_elements(loaded->weights, saved.weights));
}

TEST_F(StageFileTest, TiedNamesAreWrittenOnceAndTiedAgain) {
  SavedStage saved = stage_of_three(2);
  saved.order = {"b", "a", "c"};
  const archive::Payload tied = float_payload({2}, {1, 2});
  archive::Payload half = tied;
  half.sizes = {1};
  saved.weights = {{"a", tied}, {"c", half}, {"b", tied}};
  ASSERT_EQ(save_stage(path_, saved), Status());
  EXPECT_THAT(testing::names_of(archive::read_safetensors(path_).value().tensors), ElementsAre("a", "c"));
  const SavedStage loaded = load_stage(path_).value();
  EXPECT_THAT(testing::names_of(loaded.weights), ElementsAre("b", "a", "c"));
  EXPECT_TRUE(archive::same_tensor(loaded.weights[0].second, loaded.weights[1].second));
  EXPECT_THAT(floats_of(loaded.weights[0].second), ElementsAre(1, 2));
  EXPECT_THAT(floats_of(loaded.weights[2].second), ElementsAre(1));
}

TEST_F(StageFileTest, StageThatCannotBeIsNotSaved) {
  SavedStage saved = stage_of_three(1);
  saved.stage = 3;
  EXPECT_EQ(save_stage(path_, saved).code(), Code::kInvalid);
  saved = stage_of_three(1);
  saved.weights.push_back(saved.weights[0]);
  EXPECT_THAT(save_stage(path_, saved).message(), AllOf(HasSubstr(path_.string()), HasSubstr("\"m.weight\"")));
  saved = stage_of_three(1);
  saved.nodes.pop_back();
  EXPECT_EQ(save_stage(path_, saved).code(), Code::kInvalid);
  saved = stage_of_three(1);
  saved.run = "\xff";
  EXPECT_EQ(save_stage(path_, saved).code(), Code::kInvalid);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(StageFileTest, MetadataThatContradictThemselvesAreCorrupt) {
  const auto refusal = [&](const std::string& key, const std::string& from, const std::string& to) {
    const Status status = load_changed(key, from, to).status();
    EXPECT_THAT(status.message(), HasSubstr(path_.string()));
    return status;
  };
  EXPECT_EQ(load_changed("ravnest.stage", "run 1", "run 2").value().run, "run 2");
  EXPECT_EQ(refusal("ravnest.stage", "\"stage\":1", "\"stage\":3").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.stage", "\"stage\":1", "\"stage\":-1").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.stage", "\"updates\":7", "\"updates\":-7").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.stage", "\"plan\"", "\"plot\"").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.stage", "\"version\":1", "\"version\":2").code(), Code::kUnsupported);
  EXPECT_EQ(refusal("ravnest.stage", "{", "").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.order", "z.bias", "z.weight").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.aliases", "{}", R"({"x":"y"})").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.aliases", "{}", R"({"m.steps":"m.weight"})").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("ravnest.aliases", "{}", "[]").code(), Code::kCorrupt);
}

TEST_F(StageFileTest, FileOfSomethingElseIsInvalid) {
  fs::create_directories(path_.parent_path());
  ASSERT_EQ(archive::write_safetensors(path_, {{}, {{"a", float_payload({1}, {1})}}}), Status());
  EXPECT_EQ(load_stage(path_).status().code(), Code::kInvalid);
  EXPECT_EQ(load_stage(folder_.path() / "nothing").status().code(), Code::kNotFound);
}

// RLIMIT_FSIZE is met in the same place as a full disk, and anyone may set it; in a child, since it holds for the whole
// process.
TEST_F(StageFileTest, DiskWithoutRoomLeavesTheEarlierFileWhole) {
  ASSERT_EQ(save_stage(path_, stage_of_three(1)), Status());
  const auto before = testing::contents_of(folder_.path());
  SavedStage larger = stage_of_three(1);
  larger.weights[0].second = float_payload({100'000}, std::vector<float>(100'000, 1.0F));
  const int code = test::in_child([&] {
    static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
    const rlimit small{.rlim_cur = 50'000, .rlim_max = 50'000};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return -1;
    return static_cast<int>(save_stage(path_, larger).code());
  });
  EXPECT_EQ(code, static_cast<int>(Code::kUnavailable));
  EXPECT_EQ(testing::contents_of(folder_.path()), before);
}

}  // namespace
}  // namespace ravnest::checkpoint
