#include "ravnest/checkpoint/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/archive/weights/weights.h"
#include "ravnest/archive/zip.h"
#include "ravnest/checkpoint/testing/checkpoints.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::small_order;
using testing::small_stage;

// What torch itself makes of the files, tests/python/checkpoint has.
class Export : public test::FolderTest {
 protected:
  // Whether the pickle has these words, in this order.
  bool says(const fs::path& path, const std::vector<std::string>& words) const {
    const std::string content = read_file(path).value();
    const auto zip = archive::ZipReader::open(as_byte_span(content)).value();
    const std::string_view pickle = as_string_view(zip.record(text(path.stem().string(), "/data.pkl")).value());
    std::size_t at = 0;
    for (const std::string& word : words) {
      at = pickle.find(word, at);
      if (at == std::string_view::npos) return false;
    }
    return true;
  }

  Whole whole_ = assemble({small_stage(0), small_stage(1)}).value();
};

TEST_F(Export, StateDictHasTheModelsKeysAndValues) {
  ASSERT_EQ(export_state_dict(whole_, folder_ / "model.pt"), Status());
  const archive::NamedPayloads read = archive::read_weights(folder_ / "model.pt").value();
  EXPECT_EQ(testing::names_of(read), small_order());
  EXPECT_TRUE(testing::same_elements(read, whole_.weights));
  EXPECT_TRUE(archive::same_tensor(read[0].second, read[4].second)) << "tied names stay tied";
}

TEST_F(Export, SafetensorsFileHasEveryName) {
  ASSERT_EQ(export_safetensors(whole_, folder_ / "model.safetensors"), Status());
  const archive::Safetensors read = archive::read_safetensors(folder_ / "model.safetensors").value();
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_THAT(testing::names_of(read.tensors), ::testing::UnorderedElementsAreArray(small_order()));
}

TEST_F(Export, OptimizerHasStateAndGroups) {
  ASSERT_EQ(export_optimizer(whole_, folder_ / "optimizer.pt"), Status());
  EXPECT_TRUE(says(folder_ / "optimizer.pt", {"state", "exp_avg", "step", "calls", "exp_avg", "param_groups", "amsgrad",
                                              "betas", "lr", "params"}));
}

TEST_F(Export, CheckpointWithoutOptimizerHasNone) {
  whole_.optimizer = {};
  const Status status = export_optimizer(whole_, folder_ / "optimizer.pt");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("no optimizer's state"));
  EXPECT_FALSE(fs::exists(folder_ / "optimizer.pt"));
}

TEST_F(Export, FrozenParametersOfSeveralGroupsAreRefused) {
  EXPECT_EQ(export_optimizer(whole_, folder_ / "optimizer.pt", Frozen::kIncluded), Status());
  whole_.optimizer.groups.push_back(whole_.optimizer.groups[0]);
  whole_.optimizer.groups[1].parameters.clear();
  const Status status = export_optimizer(whole_, folder_ / "other.pt", Frozen::kIncluded);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("body.frozen"), HasSubstr("2 groups")));
  EXPECT_FALSE(fs::exists(folder_ / "other.pt"));
}

TEST_F(Export, FolderThatIsNotThereIsNamed) {
  EXPECT_THAT(export_state_dict(whole_, folder_ / "no" / "model.pt").message(), HasSubstr("no/model.pt"));
}

}  // namespace
}  // namespace ravnest::checkpoint
