// The bytes of the format: what an earlier release has written, tests/golden/checkpoint, is what this one writes and
// reads. With RAVNEST_WRITE_GOLDEN=1 in the environment it is written anew, for a new version of the format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/testing/checkpoints.h"
#include "ravnest/checkpoint/verify.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(RAVNEST_GOLDEN_FOLDER) / "checkpoint";

class CheckpointFormat : public test::FolderTest {};

TEST_F(CheckpointFormat, FilesAreThoseOfTheGoldenOne) {
  testing::write_small(folder_, 120, "run a", 97.5);
  if (std::getenv("RAVNEST_WRITE_GOLDEN") != nullptr) testing::write_small(kGolden, 120, "run a", 97.5);
  const auto written = test::contents_of(folder_);
  const auto golden = test::contents_of(kGolden);
  ASSERT_EQ(written.size(), 4);
  for (const auto& [path, content] : written) {
    ASSERT_TRUE(golden.contains(path)) << path;
    EXPECT_EQ(content, golden.at(path)) << path;
  }
}

TEST_F(CheckpointFormat, GoldenOneIsReadWhole) {
  const Checkpoint checkpoint = find_checkpoint(kGolden, "best").value();
  EXPECT_EQ(verified(checkpoint), Status());
  EXPECT_EQ(checkpoint.manifest.position.samples, 64);
  const Whole whole = read_whole(checkpoint).value();
  const Whole direct = assemble({testing::small_stage(0), testing::small_stage(1)}).value();
  EXPECT_EQ(archive::testing::shown(whole.weights), archive::testing::shown(direct.weights));
  EXPECT_TRUE(testing::same_elements(whole.weights, direct.weights));
  EXPECT_EQ(whole.optimizer.groups, direct.optimizer.groups);
  EXPECT_EQ(whole.optimizer.values, direct.optimizer.values);
}

}  // namespace
}  // namespace ravnest::checkpoint
