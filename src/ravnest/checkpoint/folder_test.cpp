#include "ravnest/checkpoint/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "ravnest/base/testing/bad_conditions.h"
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

class CheckpointFolder : public test::FolderTest {
 protected:
  std::vector<std::uint64_t> listed() const {
    std::vector<std::uint64_t> updates;
    const Listing listing = list_checkpoints(root_).value();
    for (const Checkpoint& each : listing.complete) updates.push_back(each.manifest.updates);
    return updates;
  }
  Status not_found_for(std::string_view which) const {
    const Result<Checkpoint> found = find_checkpoint(root_, which);
    EXPECT_EQ(found.status().code(), Code::kNotFound) << which;
    return found.status();
  }

  fs::path root_ = folder_ / "checkpoints";
};

TEST_F(CheckpointFolder, ListHasTheNewestFirst) {
  EXPECT_THAT(listed(), ElementsAre()) << "of a folder that is not there";
  for (const int updates : {80, 1200, 200}) write_small(root_, updates);
  EXPECT_THAT(listed(), ElementsAre(1200, 200, 80));
}

TEST_F(CheckpointFolder, WhatHasNoManifestIsInvisible) {
  write_small(root_, 80);
  const Checkpoint newer = write_small(root_, 120);
  fs::remove(newer.folder / kManifestFile);
  fs::create_directories(root_ / "something_else");
  EXPECT_THAT(listed(), ElementsAre(80));
  EXPECT_EQ(find_checkpoint(root_, "").value().manifest.updates, 80);
  EXPECT_THAT(not_found_for(newer.folder.string()).message(), HasSubstr("never finished"));
}

TEST_F(CheckpointFolder, WhatCannotBeReadIsListedWithItsReason) {
  const Checkpoint torn = write_small(root_, 120);
  const Checkpoint other = write_small(root_, 160);
  test::write(torn.folder / kManifestFile, encode(torn.manifest).substr(0, 100));
  fs::rename(other.folder, checkpoint_folder(root_, 161));
  const Listing listing = list_checkpoints(root_).value();
  ASSERT_EQ(listing.unreadable.size(), 2);
  EXPECT_THAT(listing.unreadable[0].why.message(), HasSubstr("it is of update 160"));
  EXPECT_THAT(listing.unreadable[1].why.message(), HasSubstr((torn.folder / kManifestFile).string()));
  EXPECT_THAT(not_found_for("newest").message(), HasSubstr((torn.folder / kManifestFile).string()));
}

TEST_F(CheckpointFolder, IsFoundByUpdateByNameByPathAndByWorth) {
  write_small(root_, 80, "run a", 90.0);
  write_small(root_, 120, "run a", 97.5);
  write_small(root_, 160, "run a", 97.5);
  write_small(root_, 200);
  const auto found = [&](std::string_view which) { return find_checkpoint(root_, which).value().manifest.updates; };
  EXPECT_EQ(found(""), 200);
  EXPECT_EQ(found("newest"), 200);
  EXPECT_EQ(found("best"), 160) << "the newest of the best";
  EXPECT_EQ(found("120"), 120);
  EXPECT_EQ(found("update_000000080"), 80);
  EXPECT_EQ(found(checkpoint_folder(root_, 80).string()), 80);
  EXPECT_EQ(find_checkpoint(folder_ / "elsewhere", root_.string()).value().manifest.updates, 200);
  EXPECT_THAT(not_found_for("130").message(), AllOf(HasSubstr("update 130"), HasSubstr("200, 160, 120, 80")));
  EXPECT_THAT(not_found_for("/no/such/folder").message(), HasSubstr("/no/such/folder"));
}

TEST_F(CheckpointFolder, WithNothingThereItSaysSo) {
  EXPECT_THAT(not_found_for("newest").message(), AllOf(HasSubstr(root_.string()), HasSubstr("there is none")));
  EXPECT_THAT(not_found_for("best").message(), HasSubstr("there is none"));
  EXPECT_THAT(not_found_for("12").message(), HasSubstr("there is none"));
}

TEST(ResumeWord, SaysYesAndNoInWordsOfEnvironments) {
  for (const char* yes : {"1", "true", "newest"}) EXPECT_EQ(resume_word(yes), "newest");
  for (const char* no : {"0", "false", ""}) EXPECT_EQ(resume_word(no), "");
  for (const char* name : {"best", "10", "update_000000001", "s3://lab/run"}) EXPECT_EQ(resume_word(name), name);
}

TEST(Retention, TheNewestThoseOfAMultipleAndTheBestStay) {
  std::vector<Checkpoint> all;
  for (const std::uint64_t updates : {50, 40, 30, 20, 10}) {
    all.push_back({checkpoint_folder("root", updates), {}});
    all.back().manifest.run = "run a";
    all.back().manifest.updates = updates;
  }
  all[3].manifest.accuracy = 90;
  all[4].manifest.accuracy = 80;
  const auto gone = [&](const Retention& retention) {
    std::vector<std::uint64_t> updates;
    for (const Checkpoint& each : outdated(all, "run a", retention)) updates.push_back(each.manifest.updates);
    return updates;
  };
  EXPECT_THAT(gone({}), ElementsAre(10, 20, 30));
  EXPECT_THAT(gone({.keep = 1}), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(gone({.keep = 0}), ElementsAre());
  EXPECT_THAT(gone({.keep = 1, .keep_every = 20}), ElementsAre(10, 30));
  EXPECT_THAT(gone({.keep = 1, .best = true}), ElementsAre(10, 30, 40));
  all[1].manifest.run = "run b";
  EXPECT_THAT(gone({.keep = 1}), ElementsAre(10, 20, 30)) << "another run's are not counted";
}

TEST_F(CheckpointFolder, OlderOnesGoWhenANewerIsComplete) {
  for (const int updates : {80, 120, 160}) write_small(root_, updates);
  ASSERT_EQ(prune(root_, "run a", "node_0", {.keep = 2}), Status());
  EXPECT_THAT(listed(), ElementsAre(160, 120));
  EXPECT_FALSE(fs::exists(checkpoint_folder(root_, 80)));
}

TEST_F(CheckpointFolder, OneOfAnotherRunStays) {
  write_small(root_, 80, "run b");
  for (const int updates : {120, 160}) write_small(root_, updates);
  ASSERT_EQ(prune(root_, "run a", "node_0", {.keep = 1}), Status());
  EXPECT_THAT(listed(), ElementsAre(160, 80));
}

TEST_F(CheckpointFolder, WhatIsNotOfTheCheckpointStaysWithItsFolder) {
  const Checkpoint checkpoint = write_small(root_, 80);
  test::write(checkpoint.folder / "notes.txt", "mine");
  ASSERT_EQ(remove_checkpoint(checkpoint), Status());
  EXPECT_THAT(test::names_in(checkpoint.folder), ElementsAre("notes.txt"));
  EXPECT_EQ(remove_checkpoint(checkpoint), Status()) << "what is gone is no failure";
}

TEST_F(CheckpointFolder, TwoRunsInOneFolderAreNoticed) {
  write_small(root_, 80, "run a");
  const Status status = begin_run(root_, "run b", "node_0");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("run a"), HasSubstr("run b"), HasSubstr("resume")));
  EXPECT_EQ(begin_run(root_, "run a", "node_0"), Status());
  EXPECT_EQ(begin_run(folder_ / "new" / "folder", "run b", "node_0"), Status());
  EXPECT_TRUE(fs::is_directory(folder_ / "new" / "folder"));
}

TEST_F(CheckpointFolder, OneOfALaterVersionIsNotWrittenBeside) {
  const Checkpoint checkpoint = write_small(root_, 80);
  std::string written = encode(checkpoint.manifest);
  written.replace(written.find("\"version\": 1"), 12, "\"version\": 9");
  test::write(checkpoint.folder / kManifestFile, written);
  const Status status = begin_run(root_, "run a", "node_0");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("version 9"), HasSubstr("version 1")));
}

TEST_F(CheckpointFolder, BeginningRemovesWhatTheRunLeftUnfinishedAndNothingOfOthers) {
  write_small(root_, 80);
  const fs::path unfinished = checkpoint_folder(root_, 120);
  static_cast<void>(write_part(unfinished, small_stage(0, 120)).value());
  static_cast<void>(write_part(unfinished, small_stage(1, 120)).value());
  test::write(unfinished / ".stage_0.safetensors.abcdefgh.tmp", "half");
  ASSERT_EQ(begin_run(root_, "run a", "node_0"), Status());
  EXPECT_THAT(test::names_in(unfinished), ElementsAre("stage_1.safetensors")) << "node_1's";
  ASSERT_EQ(begin_run(root_, "run a", "node_1"), Status());
  EXPECT_FALSE(fs::exists(unfinished));
  static_cast<void>(write_part(unfinished, small_stage(0, 120, "run b")).value());
  ASSERT_EQ(begin_run(root_, "run a", ""), Status());
  EXPECT_THAT(test::names_in(unfinished), ElementsAre("stage_0.safetensors"));
  EXPECT_THAT(listed(), ElementsAre(80));
}

TEST_F(CheckpointFolder, WhatIsBeingWrittenIsNotStale) {
  write_small(root_, 80);
  write_small(root_, 120);
  static_cast<void>(write_part(checkpoint_folder(root_, 100), small_stage(0, 100)).value());
  static_cast<void>(write_part(checkpoint_folder(root_, 160), small_stage(0, 160)).value());
  ASSERT_EQ(prune(root_, "run a", "node_0", {.keep = 2}), Status());
  EXPECT_FALSE(fs::exists(checkpoint_folder(root_, 100)));
  EXPECT_TRUE(fs::exists(checkpoint_folder(root_, 160)));
}

TEST_F(CheckpointFolder, ResumeFromAnEarlierOneRemovesTheLater) {
  for (const int updates : {80, 120, 160, 200}) write_small(root_, updates);
  write_small(root_, 300, "run b");
  test::write(checkpoint_folder(root_, 160) / kManifestFile, "{");
  ASSERT_EQ(remove_newer(root_, "run a", 120), Status());
  EXPECT_THAT(listed(), ElementsAre(300, 120, 80));
  EXPECT_FALSE(fs::exists(checkpoint_folder(root_, 160)));
  EXPECT_FALSE(fs::exists(checkpoint_folder(root_, 200)));
}

TEST_F(CheckpointFolder, KilledRemovalLeavesNoHalfCheckpoint) {
  for (int round = 0; round < 8; ++round) {
    for (const int updates : {80, 120, 160}) write_small(root_, updates);
    const int child =
        test::start_child([&] { return static_cast<int>(prune(root_, "run a", "node_0", {.keep = 1}).code()); });
    test::kill_after(child, std::chrono::microseconds(300 * round));
    const Listing listing = list_checkpoints(root_).value();
    for (const Checkpoint& each : listing.complete) EXPECT_TRUE(read_whole(each).ok()) << each.folder;
    ASSERT_EQ(begin_run(root_, "run a", ""), Status());
    ASSERT_EQ(prune(root_, "run a", "", {.keep = 1}), Status());
    EXPECT_THAT(test::names_in(root_), ElementsAre("update_000000160"));
  }
}

TEST_F(CheckpointFolder, FolderThatMayNotBeWrittenIsNamedBeforeTheRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  fs::create_directories(root_);
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::others_exec);
  const std::string code = root_.string();
  EXPECT_EQ(test::in_child([&] {
              if (::seteuid(65534) != 0) return -1;
              const Status status = begin_run(root_, "run a", "node_0");
              return status.code() == Code::kInvalid && status.message().find(code) != std::string::npos ? 0 : 1;
            }),
            0);
  test::write(folder_ / "file", "");
  EXPECT_THAT(begin_run(folder_ / "file", "run a", "node_0").message(), HasSubstr((folder_ / "file").string()));
}

TEST_F(CheckpointFolder, DiskThatMayOnlyBeReadIsReadAndNamedBeforeTheRun) {
  const test::SmallDisk disk(folder_ / "disk", 256 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "nothing can be mounted here";
  root_ = disk.path() / "checkpoints";
  const Checkpoint checkpoint = write_small(root_, 80);
  ASSERT_EQ(::mount(nullptr, disk.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_EQ(find_checkpoint(root_, "newest").value().manifest.updates, 80);
  EXPECT_THAT(begin_run(root_, "run a", "node_0").message(), AllOf(HasSubstr(root_.string()), HasSubstr("Read-only")));
  EXPECT_THAT(remove_checkpoint(checkpoint).message(), HasSubstr("Read-only"));
  EXPECT_THAT(listed(), ElementsAre(80));
}

TEST_F(CheckpointFolder, FullDiskLeavesTheLastGoodOne) {
  const test::SmallDisk disk(folder_ / "disk", 256 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "nothing can be mounted here";
  root_ = disk.path() / "checkpoints";
  write_small(root_, 80);
  Part large = small_stage(0, 120);
  large.weights[0].second = testing::float_payload({100'000}, std::vector<float>(100'000, 1.0F));
  EXPECT_EQ(write_part(checkpoint_folder(root_, 120), large).status().code(), Code::kUnavailable);
  EXPECT_THAT(listed(), ElementsAre(80));
  ASSERT_EQ(begin_run(root_, "run a", "node_0"), Status());
  EXPECT_THAT(test::names_in(root_), ElementsAre("update_000000080"));
}

}  // namespace
}  // namespace ravnest::checkpoint
