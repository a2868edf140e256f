#include "ravnest/plan/files/replacement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using ::testing::HasSubstr;
using Contents = std::map<std::string, std::string>;

// A plan all of whose files bear its number, with as many clusters as the number says.
Contents plan_of(int number) {
  const std::string mark = std::to_string(number);
  Contents plan{{"plan.json", mark}, {"authority/ca.key", mark}};
  for (int cluster = 0; cluster < 1 + number % 3; ++cluster) {
    const std::string index = std::to_string(cluster);
    plan["nodes/node_" + index + ".json"] = mark;
    plan["cluster_" + index + "/0.0.0.0:808" + index + "/submod.pt"] = mark;
  }
  return plan;
}

// Not `testing::write`, which throws where the disk is full.
Status fill(const fs::path& folder, const Contents& plan) {
  for (const auto& [path, content] : plan) {
    std::error_code error;
    fs::create_directories((folder / path).parent_path(), error);
    if (error) return system_failure("create", folder, error.value());
    if (Status status = write_file_atomically(folder / path, content); !status.ok()) return status;
  }
  return {};
}

Status replace(const fs::path& node_data, const Contents& plan, OnStep on_step = {}) {
  Result<Replacement> replacement = Replacement::begin(node_data, std::move(on_step));
  if (!replacement.ok()) return replacement.status();
  if (Status status = fill(replacement->folder(), plan); !status.ok()) return status;
  return replacement->commit();
}

class ReplacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write(node_data_ / "node_configs.json", "the user's");
    foreign_ = contents_of(node_data_);
  }

  // What node_data holds beside what was the user's own from the beginning; leftovers show up here.
  Contents plan() const {
    Contents all = contents_of(node_data_);
    for (const auto& [path, content] : foreign_) {
      EXPECT_EQ(all[path], content) << path;
      all.erase(path);
    }
    return all;
  }

  test::TemporaryFolder folder_;
  fs::path node_data_ = folder_.path() / "node_data";
  Contents foreign_;
};

TEST_F(ReplacementTest, CommittedPlanIsThereWithoutLeftovers) {
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  EXPECT_EQ(plan(), plan_of(2));
}

TEST_F(ReplacementTest, FolderThatIsMissingIsMade) {
  const fs::path deep = folder_.path() / "a" / "b";
  ASSERT_EQ(replace(deep, plan_of(0)), Status());
  EXPECT_EQ(contents_of(deep), plan_of(0));
}

TEST_F(ReplacementTest, ClustersOfTheOldPlanDisappearAndForeignFilesStay) {
  test::write(node_data_ / "cluster_notes" / "x", "a folder of the user's");
  test::write(node_data_ / "cluster_9", "a file of the user's");
  test::write(node_data_ / ".hidden", "too");
  foreign_ = contents_of(node_data_);
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  ASSERT_TRUE(fs::exists(node_data_ / "cluster_2"));
  ASSERT_EQ(replace(node_data_, plan_of(3)), Status());
  EXPECT_EQ(plan(), plan_of(3));
}

TEST_F(ReplacementTest, WithoutACommitTheOldPlanStaysAndNothingIsLeft) {
  ASSERT_EQ(replace(node_data_, plan_of(1)), Status());
  {
    auto replacement = Replacement::begin(node_data_);
    ASSERT_TRUE(replacement.ok());
    ASSERT_EQ(fill(replacement->folder(), plan_of(2)), Status());
    Replacement moved = std::move(*replacement);
    EXPECT_TRUE(fs::exists(moved.folder()));
  }
  EXPECT_EQ(plan(), plan_of(1));
}

TEST_F(ReplacementTest, SecondCommitIsInvalid) {
  auto replacement = Replacement::begin(node_data_);
  ASSERT_TRUE(replacement.ok());
  ASSERT_EQ(replacement->commit(), Status());
  EXPECT_EQ(replacement->commit().code(), Code::kInvalid);
}

TEST_F(ReplacementTest, WhatIsNoPartOfAPlanIsRefused) {
  for (const char* name : {"node_configs.json", "cluster_x/a", "cluster_/a", ".plan.old/a", "nodes"}) {
    const Status status = replace(node_data_, {{name, "x"}});
    EXPECT_EQ(status.code(), Code::kInvalid) << name;
  }
  EXPECT_EQ(plan(), Contents());
}

TEST_F(ReplacementTest, FileOfTheUsersInTheWayIsNamedAndStays) {
  test::write(node_data_ / "nodes", "the user's");
  foreign_ = contents_of(node_data_);
  const Status status = replace(node_data_, plan_of(1));
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr((node_data_ / "nodes").string() + " is in the way"));
  EXPECT_EQ(plan(), Contents());
}

TEST_F(ReplacementTest, LinkToAnotherDiskIsReplacedButWhatItLeadsToStays) {
  test::write(folder_.path() / "elsewhere" / "weights", "large");
  fs::create_directory_symlink(folder_.path() / "elsewhere", node_data_ / "cluster_0");
  fs::create_directory_symlink(folder_.path() / "elsewhere", node_data_ / "cluster_7");
  ASSERT_EQ(replace(node_data_, plan_of(1)), Status());
  EXPECT_EQ(plan(), plan_of(1));
  EXPECT_EQ(contents_of(folder_.path() / "elsewhere"), (Contents{{"weights", "large"}}));
}

TEST_F(ReplacementTest, SecondWriterIsTurnedAwayUntilTheFirstIsDone) {
  {
    auto first = Replacement::begin(node_data_);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(Replacement::begin(node_data_).status(),
              unavailable("another plan is being written to ", node_data_.string(), "; try again when it is done"));
    EXPECT_TRUE(fs::exists(first->folder()));
    ASSERT_EQ(fill(first->folder(), plan_of(1)), Status());
    ASSERT_EQ(first->commit(), Status());
    EXPECT_TRUE(Replacement::begin(node_data_).ok()) << "a committed replacement holds no lock";
  }
  EXPECT_EQ(plan(), plan_of(1));
}

TEST_F(ReplacementTest, ReaderDoesNotDisturbAWriter) {
  ASSERT_EQ(replace(node_data_, plan_of(1)), Status());
  auto writer = Replacement::begin(node_data_);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(fill(writer->folder(), plan_of(2)), Status());
  EXPECT_EQ(finish_replacement(node_data_), Status());
  EXPECT_EQ(test::read_below(node_data_, plan_of(1)), plan_of(1));
  ASSERT_EQ(writer->commit(), Status());
  EXPECT_EQ(plan(), plan_of(2));
}

// A process that ends after each step in turn, as if killed there. `also` runs first in the child.
void expect_old_or_new_after_every_step(const fs::path& node_data, const std::function<Contents()>& plan,
                                        const std::function<void()>& also) {
  int stops = 0;
  int seen_old = 0;
  for (bool ended = false; !ended; ++stops) {
    ASSERT_LT(stops, 200);
    ASSERT_EQ(replace(node_data, plan_of(2)), Status());
    const int status = test::in_child([&] {
      also();
      int step = 0;
      const Status replaced = replace(node_data, plan_of(4), [&](std::string_view) {
        if (step++ == stops) ::_exit(77);
      });
      return replaced.ok() ? 0 : 1;
    });
    ASSERT_TRUE(status == 77 || status == 0) << status;
    ended = status == 0;
    ASSERT_EQ(finish_replacement(node_data), Status());
    Contents left = plan();
    for (auto at = left.begin(); at != left.end();) at = at->first.starts_with(".plan.") ? left.erase(at) : ++at;
    if (left == plan_of(2)) {
      ++seen_old;
    } else {
      EXPECT_EQ(left, plan_of(4)) << "stopped after step " << stops;
      EXPECT_EQ(plan(), plan_of(4)) << "leftovers after step " << stops;
    }
    ASSERT_TRUE(Replacement::begin(node_data).ok());
    EXPECT_EQ(plan(), left) << "leftovers after step " << stops;
  }
  EXPECT_EQ(seen_old, 3) << "the old plan stays until the commit and no longer";
  EXPECT_GT(stops, 10);
}

TEST_F(ReplacementTest, StopAfterAnyStepLeavesTheOldPlanOrTheNewOne) {
  expect_old_or_new_after_every_step(
      node_data_, [this] { return plan(); }, [] {});
}

TEST_F(ReplacementTest, StopAfterAnyStepIsAsHarmlessWhereNamesCannotBeSwapped) {
  if (!test::can_refuse_swaps()) GTEST_SKIP() << "this system does not let a process refuse its own calls";
  expect_old_or_new_after_every_step(
      node_data_, [this] { return plan(); }, [] { test::refuse_swaps(); });
}

TEST_F(ReplacementTest, PlanThatCameWithAContainersImageCanBeReplaced) {
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  const test::SmallDisk disk(folder_.path() / "disk", 1 << 20);
  const test::Layers layers(node_data_, disk);
  if (!layers.mounted()) GTEST_SKIP() << "only root can mount layers";
  ASSERT_EQ(replace(node_data_, plan_of(4)), Status());
  EXPECT_EQ(plan(), plan_of(4));
  ASSERT_EQ(replace(node_data_, plan_of(0)), Status());
  EXPECT_EQ(plan(), plan_of(0));
}

TEST_F(ReplacementTest, FolderThatIsALinkIsFollowed) {
  const fs::path link = folder_.path() / "link";
  fs::create_directory_symlink(node_data_, link);
  ASSERT_EQ(replace(link, plan_of(2)), Status());
  EXPECT_EQ(plan(), plan_of(2));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(ReplacementTest, StopWithinTheRollForwardIsRolledForwardAgain) {
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  const auto stop_at = [&](std::string_view name, const Contents& next) {
    return test::in_child([&] {
      static_cast<void>(replace(node_data_, next, [&](std::string_view step) {
        if (step == name) ::_exit(77);
      }));
      return 0;
    });
  };
  ASSERT_EQ(stop_at("committed", plan_of(4)), 77);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(stop_at("an entry put in place", plan_of(5)), 77);
  ASSERT_EQ(finish_replacement(node_data_), Status());
  EXPECT_EQ(plan(), plan_of(4));
}

TEST_F(ReplacementTest, KillAtAnyMomentLeavesAWholePlan) {
  std::mt19937 random(7);
  ASSERT_EQ(replace(node_data_, plan_of(0)), Status());
  for (int round = 0; round < 40; ++round) {
    const auto child = test::start_child([&] {
      for (int number = 0;; ++number) {
        if (!replace(node_data_, plan_of(number % 90)).ok()) return 1;
      }
    });
    test::kill_after(child, std::chrono::microseconds(random() % 40'000));
    ASSERT_EQ(finish_replacement(node_data_), Status());
    const int number = std::stoi(read_file(node_data_ / "plan.json").value());
    EXPECT_EQ(test::read_below(node_data_, plan_of(number)), plan_of(number)) << "round " << round;
    ASSERT_TRUE(Replacement::begin(node_data_).ok());
    ASSERT_EQ(plan(), plan_of(number)) << "round " << round;
  }
}

TEST_F(ReplacementTest, PendingReplacementWaitsForItsWriterAndThenSaysSo) {
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  ASSERT_EQ(test::in_child([&] {
              static_cast<void>(replace(node_data_, plan_of(4), [](std::string_view step) {
                if (step == "committed") ::_exit(77);
              }));
              return 0;
            }),
            77);
  {
    const auto held = FolderLock::take(node_data_);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(finish_replacement(node_data_, std::chrono::milliseconds(20)),
              unavailable("a plan is just being put in place in ", node_data_.string(), "; try again when it is done"));
    EXPECT_TRUE(fs::exists(node_data_ / ".plan.ready"));
  }
  EXPECT_EQ(finish_replacement(node_data_, std::chrono::milliseconds(20)), Status());
  EXPECT_EQ(plan(), plan_of(4));
}

TEST_F(ReplacementTest, ReaderThatWaitsGoesOnWhenTheWriterIsDone) {
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  Status read = unavailable("not yet");
  std::thread reader;
  ASSERT_EQ(replace(node_data_, plan_of(4),
                    [&](std::string_view step) {
                      if (step == "committed")
                        reader = std::thread([&] { read = finish_replacement(node_data_, std::chrono::seconds(60)); });
                    }),
            Status());
  reader.join();
  EXPECT_EQ(read, Status());
  EXPECT_EQ(plan(), plan_of(4));
}

TEST_F(ReplacementTest, DamagedListOfAPendingReplacementIsCorrupt) {
  for (const char* list : {"", "[]", R"({"id": 3, "entries": []})", R"({"id": "x", "entries": ["../x"]})",
                           R"({"id": "x", "entries": ["nodes"]})"}) {
    test::write(node_data_ / ".plan.ready" / "entries.json", list);
    EXPECT_EQ(finish_replacement(node_data_).code(), Code::kCorrupt) << list;
  }
}

TEST_F(ReplacementTest, NothingPendingNeedsNoFolder) {
  EXPECT_EQ(finish_replacement(folder_.path() / "nothing"), Status());
}

TEST_F(ReplacementTest, ReadOnlyFolderIsNamedAndItsPlanStaysReadable) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  ASSERT_EQ(replace(node_data_, plan_of(2)), Status());
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(node_data_, fs::perms(0555));
  EXPECT_EQ(test::in_child([&] {
              if (::setuid(65534) != 0) return 2;
              const Status refused = replace(node_data_, plan_of(4));
              if (refused.code() != Code::kInvalid) return 3;
              if (refused.message().find(node_data_.string() + ": ") == std::string::npos) return 4;
              if (!finish_replacement(node_data_).ok()) return 5;
              return test::read_below(node_data_, {{"plan.json", ""}}).at("plan.json") == "2" ? 0 : 6;
            }),
            0);
  EXPECT_EQ(plan(), plan_of(2));
}

TEST_F(ReplacementTest, FullDiskLeavesTheOldPlanAndNothingElse) {
  const test::SmallDisk disk(folder_.path() / "disk", 256 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const fs::path node_data = disk.path() / "node_data";
  ASSERT_EQ(replace(node_data, plan_of(2)), Status());
  Contents large = plan_of(4);
  large["cluster_1/large"] = std::string(400 << 10, 'x');
  const Status status = replace(node_data, large);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("No space left on device"));
  EXPECT_EQ(contents_of(node_data), plan_of(2));
}

TEST_F(ReplacementTest, DiskThatIsFullToTheLastByteStillLetsACompletePlanIn) {
  const test::SmallDisk disk(folder_.path() / "disk", 256 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const fs::path node_data = disk.path() / "node_data";
  ASSERT_EQ(replace(node_data, plan_of(2)), Status());
  ASSERT_EQ(replace(node_data, plan_of(4),
                    [&](std::string_view step) {
                      if (step == "committed") test::fill_up(disk.path() / "rest");
                    }),
            Status());
  fs::remove(disk.path() / "rest");
  EXPECT_EQ(contents_of(node_data), plan_of(4));
}

}  // namespace
}  // namespace ravnest::plan
