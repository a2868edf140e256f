#include "ravnest/checkpoint/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "ravnest/archive/zip.h"
#include "ravnest/base/file.h"
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

class FuseTest : public ::testing::Test {
 protected:
  void save(const SavedStage& saved) const {
    ASSERT_EQ(save_stage(stage_file(options_.trained, 0, saved.node), saved), Status());
  }
  void save_all() const {
    for (int stage = 0; stage < 3; ++stage) save(stage_of_three(stage));
  }
  fs::path file(std::string_view name) const { return options_.trained / "cluster_0" / name; }

  // That it fails, and leaves everything as it was.
  Status refusal() const {
    const auto before = testing::contents_of(folder_.path());
    const Status status = fuse(options_).status();
    EXPECT_EQ(testing::contents_of(folder_.path()), before) << status;
    return status;
  }

  testing::TemporaryFolder folder_;
  FuseOptions options_{.trained = folder_.path() / "trained", .cluster = 0, .safetensors = false};
};

// The pickle names the keys in turn, which is all that is looked at here; the bytes are state_dict_test's.
std::vector<std::size_t> places_in(std::string_view pickle, const std::vector<std::string>& keys) {
  std::vector<std::size_t> places;
  for (const std::string& key : keys) places.push_back(pickle.find(key));
  return places;
}

TEST_F(FuseTest, AllStagesBecomeOneStateDictInTheModelsOrder) {
  save_all();
  const Result<Fused> fused = fuse(options_);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(fused->state_dict, options_.trained / "trained_state_dict.pt");
  EXPECT_EQ(fused->safetensors, "");
  EXPECT_EQ(fused->tensors, 5U);
  EXPECT_EQ(fused->bytes, fs::file_size(fused->state_dict));
  EXPECT_FALSE(fs::exists(options_.trained / "trained_state_dict.safetensors"));
  const MappedFile mapped = MappedFile::open(fused->state_dict).value();
  const archive::ZipReader zip = archive::ZipReader::open(mapped.bytes()).value();
  const std::string_view pickle = as_string_view(zip.record("trained_state_dict/data.pkl").value());
  const auto places = places_in(pickle, stage_of_three(0).order);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()) && places.back() != std::string_view::npos);
  EXPECT_EQ(zip.record("trained_state_dict/data/3").value().size(), 8U) << "m.steps";
}

TEST_F(FuseTest, SafetensorsIsWrittenTooOnRequest) {
  save_all();
  options_.safetensors = true;
  const Result<Fused> fused = fuse(options_);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_TRUE(fs::exists(fused->state_dict));
  const archive::Safetensors contents = archive::read_safetensors(fused->safetensors).value();
  EXPECT_EQ(contents.metadata.at("format"), "pt");
  EXPECT_THAT(testing::names_of(contents.tensors),
              ElementsAre("m.steps", "z.weight", "z.bias", "m.weight", "a.weight"));
  EXPECT_THAT(floats_of(contents.tensors[1].second), ElementsAre(1, 2, 3, 4));
}

TEST_F(FuseTest, MissingStagesAreNamedWithTheirFilesAndWhatToDo) {
  save(stage_of_three(1));
  const Status two = refusal();
  EXPECT_EQ(two.code(), Code::kNotFound);
  EXPECT_THAT(two.message(), AllOf(HasSubstr("2 of 3 stages of cluster 0 are missing: stage 0 (node_0.safetensors), "
                                             "stage 2 (node_2.safetensors)"),
                                   HasSubstr("copy them from their machines into " + file("").string())));
  SavedStage nameless = stage_of_three(1);
  nameless.nodes.clear();
  nameless.stages = 2'000'000'000;
  save(nameless);
  EXPECT_THAT(refusal().message(), HasSubstr("missing: stage 0, stage 2, stage 3, stage 4, stage 5, stage 6, stage 7, "
                                             "stage 8 and 1999999991 more"));
}

TEST_F(FuseTest, WithoutAnyStageTheMessageSaysWhereTheyBelong) {
  EXPECT_EQ(refusal().code(), Code::kNotFound);
  test::write(file("notes.txt"), "nothing to see");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(file("").string()));
}

TEST_F(FuseTest, StagesOfTwoPlansRunsOrUpdatesAreNamedWithBothValues) {
  save_all();
  SavedStage other = stage_of_three(2);
  other.plan = "plan b";
  save(other);
  EXPECT_EQ(refusal().code(), Code::kInvalid);
  EXPECT_THAT(
      refusal().message(),
      HasSubstr("node_0.safetensors, node_1.safetensors are of plan plan a, node_2.safetensors is of plan plan b"));
  other = stage_of_three(2);
  other.run = "run 2";
  save(other);
  EXPECT_THAT(refusal().message(), AllOf(HasSubstr("of run run 1"), HasSubstr("node_2.safetensors is of run run 2")));
  other = stage_of_three(2);
  other.updates = 8;
  save(other);
  EXPECT_THAT(refusal().message(), AllOf(HasSubstr("of update 7"), HasSubstr("node_2.safetensors is of update 8")));
  other = stage_of_three(2);
  other.nodes.clear();
  other.stages = 4;
  save(other);
  EXPECT_THAT(refusal().message(), HasSubstr("node_2.safetensors is of a number of stages that is 4"));
  other = stage_of_three(2);
  other.order.pop_back();
  save(other);
  EXPECT_EQ(refusal().code(), Code::kInvalid);
  save(stage_of_three(2));
  EXPECT_TRUE(fuse(options_).ok());
}

TEST_F(FuseTest, StageThatIsThereTwiceIsNamedWithBothFiles) {
  save_all();
  SavedStage again = stage_of_three(1);
  again.node = "node_7";
  save(again);
  EXPECT_EQ(refusal().code(), Code::kInvalid);
  EXPECT_THAT(refusal().message(), HasSubstr("node_1.safetensors and node_7.safetensors"));
}

TEST_F(FuseTest, StageOfAnotherClusterIsRefused) {
  save_all();
  SavedStage other = stage_of_three(1);
  other.cluster = 1;
  save(other);
  EXPECT_EQ(refusal().code(), Code::kInvalid);
  EXPECT_THAT(refusal().message(), HasSubstr("node_1.safetensors is of cluster 1, not 0"));
  options_.cluster = -1;
  EXPECT_EQ(refusal().code(), Code::kInvalid);
}

TEST_F(FuseTest, FilesThatAreNoStagesAreIgnored) {
  save_all();
  test::write(file("notes.txt"), "nothing to see");
  test::write(file(".node_1.safetensors.abcdefgh.tmp"), "cut off");
  test::write(file("._node_1.safetensors"), "left by another system");
  fs::create_directories(file("folder.safetensors"));
  ASSERT_EQ(archive::write_safetensors(file("theirs.safetensors"), {{}, {{"a", float_payload({1}, {1})}}}), Status());
  EXPECT_TRUE(fuse(options_).ok());
}

TEST_F(FuseTest, DamagedStageIsNamed) {
  save_all();
  const std::string whole = read_file(file("node_1.safetensors")).value();
  test::write(file("node_1.safetensors"), std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr(file("node_1.safetensors").string()));
}

TEST_F(FuseTest, KeysThatNoStageHasAreNamed) {
  save_all();
  SavedStage poorer = stage_of_three(1);
  poorer.weights.pop_back();
  save(poorer);
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr("no stage has m.steps"));
}

TEST_F(FuseTest, WeightsThatTheModelDoesNotHaveAreNamed) {
  save_all();
  SavedStage richer = stage_of_three(1);
  richer.weights.emplace_back("extra", float_payload({1}, {1}));
  save(richer);
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr("no extra (node_1.safetensors)"));
}

TEST_F(FuseTest, WeightOfTwoStagesMustBeTheSameInBoth) {
  save_all();
  SavedStage tied = stage_of_three(2);
  tied.weights.emplace_back("z.bias", float_payload({2}, {5, 6}));
  save(tied);
  EXPECT_TRUE(fuse(options_).ok());
  tied.weights.back().second = float_payload({2}, {5, 7});
  save(tied);
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr("\"z.bias\" is not the same in node_0.safetensors (stage 0) and "
                                             "node_2.safetensors (stage 2)"));
  tied.weights.back().second = float_payload({1, 2}, {5, 6});
  save(tied);
  EXPECT_EQ(refusal().code(), Code::kCorrupt) << "same bytes, other shape";
}

TEST_F(FuseTest, WeightTiedAcrossStagesStaysTied) {
  for (int stage = 0; stage < 3; ++stage) {
    SavedStage saved = stage_of_three(stage);
    saved.order.emplace_back("head");
    const archive::Payload tied = float_payload({2}, {5, 6});
    if (stage == 2) saved.weights.insert(saved.weights.end(), {{"z.bias", tied}, {"head", tied}});
    save(saved);
  }
  const Result<Fused> fused = fuse(options_);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(fused->tensors, 6U);
  const MappedFile mapped = MappedFile::open(fused->state_dict).value();
  const archive::ZipReader zip = archive::ZipReader::open(mapped.bytes()).value();
  EXPECT_TRUE(zip.contains("trained_state_dict/data/4"));
  EXPECT_FALSE(zip.contains("trained_state_dict/data/5")) << "head is z.bias";
}

TEST_F(FuseTest, SecondFileThatCannotBeWrittenKeepsTheFirstFromAppearing) {
  save_all();
  options_.safetensors = true;
  fs::create_directories(options_.trained / "trained_state_dict.safetensors" / "in the way");
  EXPECT_THAT(refusal().message(), HasSubstr("trained_state_dict.safetensors"));
}

TEST_F(FuseTest, DiskWithoutRoomLeavesTheEarlierResultWhole) {
  save_all();
  options_.safetensors = true;
  ASSERT_TRUE(fuse(options_).ok());
  SavedStage larger = stage_of_three(2);
  larger.weights[0].second = float_payload({100'000}, std::vector<float>(100'000, 1.0F));
  save(larger);
  const auto before = testing::contents_of(folder_.path());
  const int code = test::in_child([&] {
    static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
    const rlimit small{.rlim_cur = 50'000, .rlim_max = 50'000};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return -1;
    return static_cast<int>(fuse(options_).status().code());
  });
  EXPECT_EQ(code, static_cast<int>(Code::kUnavailable));
  EXPECT_EQ(testing::contents_of(folder_.path()), before);
}

}  // namespace
}  // namespace ravnest::checkpoint
