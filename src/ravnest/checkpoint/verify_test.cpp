#include "ravnest/checkpoint/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/testing/checkpoints.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_stage;
using testing::write_small;

class Verify : public test::FolderTest {
 protected:
  std::vector<std::string> flawed(const Checkpoint& checkpoint, const VerifyOptions& options = {}) const {
    std::vector<std::string> files;
    const std::vector<Flaw> flaws = verify(checkpoint, options).value();
    for (const Flaw& flaw : flaws) files.push_back(flaw.file);
    return files;
  }
};

TEST_F(Verify, WhatWasWrittenIsWell) {
  const Checkpoint checkpoint = write_small(folder_);
  EXPECT_THAT(flawed(checkpoint), ElementsAre());
  EXPECT_EQ(verified(checkpoint), Status());
}

// Large enough for several pages, so that cuts fall into headers and tensors alike.
Checkpoint write_pages(const fs::path& root, std::uint64_t updates) {
  Checkpoint checkpoint = write_small(root, updates);
  checkpoint.manifest.parts.clear();
  for (const int stage : {0, 1}) {
    Part part = small_stage(stage, updates);
    for (std::size_t i = 0; i < 100; ++i) part.records[text("record ", i)] = std::string(40, 'x');
    part.buffers.emplace_back("pages", testing::float_payload({5000}, std::vector<float>(5000, 0.5F)));
    checkpoint.manifest.parts.push_back(write_part(checkpoint.folder, part).value());
  }
  for (std::size_t i = 0; i < 300; ++i) checkpoint.manifest.settings[text("setting ", i)] = std::string(20, 'x');
  EXPECT_EQ(write_manifest(checkpoint.folder, checkpoint.manifest), Status());
  return checkpoint;
}

TEST_F(Verify, CutOfAnyFileAtAnyPageIsFoundAndTheOneBeforeIsTaken) {
  write_small(folder_, 80);
  const Checkpoint checkpoint = write_pages(folder_, 120);
  ASSERT_EQ(newest_readable(folder_).value().checkpoint.manifest.updates, 120);
  constexpr std::uintmax_t kPage = 4096;
  int cuts = 0;
  for (const std::string& file : test::names_in(checkpoint.folder)) {
    const fs::path path = checkpoint.folder / file;
    const std::string whole = read_file(path).value();
    for (std::uintmax_t size = 0; size < whole.size(); size += kPage, ++cuts) {
      fs::resize_file(path, size);
      if (file != kManifestFile) EXPECT_THAT(flawed(checkpoint), ElementsAre(file)) << size;
      const Readable found = newest_readable(folder_).value();
      EXPECT_EQ(found.checkpoint.manifest.updates, 80) << file << " cut at " << size;
      ASSERT_EQ(found.passed_over.size(), 1);
      EXPECT_THAT(found.passed_over[0].why.message(), HasSubstr(path.string()));
      test::write(path, whole);
    }
  }
  EXPECT_GT(cuts, 15);
  EXPECT_EQ(newest_readable(folder_).value().checkpoint.manifest.updates, 120);
}

TEST_F(Verify, OneChangedBitIsFoundByTheDigestAlone) {
  const Checkpoint checkpoint = write_small(folder_);
  const fs::path path = checkpoint.folder / "stage_1.safetensors";
  std::string content = read_file(path).value();
  content.back() = static_cast<char>(content.back() ^ 1);
  test::write(path, content);
  EXPECT_THAT(flawed(checkpoint), ElementsAre("stage_1.safetensors"));
  EXPECT_THAT(verified(checkpoint).message(),
              AllOf(HasSubstr(path.string()), HasSubstr("is damaged"), HasSubstr("SHA-256")));
  EXPECT_THAT(flawed(checkpoint, {.parts = {}, .digests = false, .progress = {}}), ElementsAre());
}

TEST_F(Verify, MissingPartIsNamedWithItsWriter) {
  const Checkpoint checkpoint = write_small(folder_);
  fs::remove(checkpoint.folder / "stage_1.safetensors");
  const std::vector<Flaw> flaws = verify(checkpoint).value();
  ASSERT_EQ(flaws.size(), 1);
  EXPECT_EQ(flaws[0].why.code(), Code::kNotFound);
  EXPECT_THAT(flaws[0].why.message(), AllOf(HasSubstr("stage_1.safetensors"), HasSubstr("node_1 has written it")));
  EXPECT_THAT(flawed(checkpoint, {.parts = {"stage_0"}, .digests = true, .progress = {}}), ElementsAre())
      << "a machine that shares no folder has its own alone";
}

TEST_F(Verify, PartOfAnotherCheckpointIsNotTaken) {
  Checkpoint checkpoint = write_small(folder_);
  checkpoint.manifest.parts[0] = write_part(checkpoint.folder, small_stage(0, 80)).value();
  ASSERT_EQ(write_manifest(checkpoint.folder, checkpoint.manifest), Status());
  EXPECT_THAT(verified(checkpoint).message(), AllOf(HasSubstr("at update 80"), HasSubstr("at update 120")));
}

TEST_F(Verify, IndexOfAnotherModelIsFound) {
  const Checkpoint checkpoint = write_small(folder_);
  test::write(checkpoint.folder / kIndexFile, R"({"metadata": {"total_size": 1}, "weight_map": {}})");
  EXPECT_THAT(flawed(checkpoint), ElementsAre(std::string(kIndexFile)));
}

TEST_F(Verify, EndsWhenItIsTold) {
  const Checkpoint checkpoint = write_small(folder_);
  VerifyOptions options;
  std::uint64_t seen = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    seen = all;
    return done == 0;
  };
  EXPECT_EQ(verify(checkpoint, options).status().code(), Code::kCancelled);
  EXPECT_EQ(newest_readable(folder_, options).status().code(), Code::kCancelled);
  EXPECT_EQ(seen, checkpoint.manifest.parts[0].bytes + checkpoint.manifest.parts[1].bytes);
}

TEST_F(Verify, AllReadableOnesAreListedWithWhatIsWrongWithTheOthers) {
  for (const int updates : {80, 120, 160, 200}) write_small(folder_, updates);
  fs::resize_file(checkpoint_folder(folder_, 120) / "stage_1.safetensors", 10);
  test::write(checkpoint_folder(folder_, 200) / kManifestFile, "{");
  const auto updates_for = [&](const VerifyOptions& options, std::size_t passed) {
    std::vector<Unreadable> passed_over;
    std::vector<std::uint64_t> updates;
    const std::vector<Checkpoint> readable = readable_checkpoints(folder_, options, &passed_over).value();
    for (const Checkpoint& each : readable) updates.push_back(each.manifest.updates);
    EXPECT_EQ(passed_over.size(), passed);
    return updates;
  };
  EXPECT_THAT(updates_for({}, 2), ElementsAre(160, 80));
  EXPECT_THAT(updates_for({.parts = {"stage_0"}, .digests = true, .progress = {}}, 1), ElementsAre(160, 120, 80));
}

TEST_F(Verify, WithNothingReadableAllReasonsAreThere) {
  EXPECT_THAT(newest_readable(folder_).status().message(), HasSubstr("there is no checkpoint"));
  const Checkpoint one = write_small(folder_, 80);
  const Checkpoint other = write_small(folder_, 120);
  fs::resize_file(one.folder / "stage_0.safetensors", 10);
  test::write(other.folder / kManifestFile, "{");
  const Status status = newest_readable(folder_).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr((one.folder / "stage_0.safetensors").string()),
                                      HasSubstr((other.folder / kManifestFile).string())));
}

}  // namespace
}  // namespace ravnest::checkpoint
