#include "ravnest/train/node/node_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <fstream>
#include <future>
#include <memory>

#include "ravnest/base/testing/folders.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/testing/checkpoints.h"
#include "ravnest/train/node/batch_sink.h"

namespace ravnest::train {
namespace {

namespace fs = std::filesystem;
using checkpoint::testing::small_stage;
using checkpoint::testing::write_small;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kStages = 2;

// The checkpoints of both nodes of a cluster. What they say to each other waits until it is delivered.
class NodeCheckpointsTest : public test::FolderTest {
 protected:
  NodeCheckpointsOptions options(int stage) {
    NodeCheckpointsOptions options;
    options.checkpoints.folder = folders_[static_cast<std::size_t>(stage)];
    options.checkpoints.resume = resume_;
    options.checkpoints.retention = retention_;
    options.plan = "plan a";
    options.nodes = {"node_0", "node_1"};
    options.stage = stage;
    options.post = [this, stage](int to, wire::Checkpointing said) {
      const MutexLock lock(mutex_);
      posted_.push_back({stage, to, std::move(said)});
    };
    options.mark = [this](std::uint64_t) {
      if (on_mark_) on_mark_();
      return std::optional(RecordMark());
    };
    options.warn = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      warned_.push_back(line);
    };
    return options;
  }

  void open() {
    for (int stage = 0; stage < kStages; ++stage)
      nodes_[static_cast<std::size_t>(stage)] = std::make_unique<NodeCheckpoints>(options(stage));
  }
  NodeCheckpoints& root() { return *nodes_[0]; }

  Status begin(const wire::CheckpointRun& run) {
    Status status;
    for (const auto& node : nodes_) {
      const auto looked = node->readable();
      const auto begun = looked.ok() ? node->begin(run, {}, {}) : looked.status();
      if (!begun.ok() && status.ok()) status = begun.status();
    }
    return status;
  }

  // Until nobody has anything to say.
  void deliver() {
    for (;;) {
      for (const auto& node : nodes_) node->settle();
      std::deque<Word> words;
      {
        const MutexLock lock(mutex_);
        words.swap(posted_);
      }
      if (words.empty()) return;
      for (Word& each : words) {
        const Status taken = nodes_[static_cast<std::size_t>(each.to)]->on_message(each.from, std::move(each.said));
        ASSERT_TRUE(taken.ok()) << taken;
      }
    }
  }

  static worker::Snapshot snapshot(int stage, std::uint64_t updates) {
    return {updates, small_stage(stage, updates), nullptr};
  }
  void make(std::uint64_t updates) {
    root().announce(updates, {.trained = updates});
    for (int stage = 0; stage < kStages; ++stage)
      nodes_[static_cast<std::size_t>(stage)]->take(snapshot(stage, updates));
    deliver();
  }

  static std::vector<std::uint64_t> updates_in(const fs::path& folder) {
    std::vector<std::uint64_t> updates;
    const auto listing = checkpoint::list_checkpoints(folder);
    for (const checkpoint::Checkpoint& each : listing->complete) updates.push_back(each.manifest.updates);
    return updates;
  }

  // One node's word of what it has, of all of a shared folder.
  Result<std::vector<wire::ReadableCheckpoint>> readable(const Poll& poll = {}) {
    open();
    Result<std::vector<wire::ReadableCheckpoint>> said = std::vector<wire::ReadableCheckpoint>();
    const Status looked = while_polling(
        root(), [&] { said = root().readable(); }, poll);
    return looked.ok() ? said : looked;
  }
  static wire::Ready ready(std::vector<wire::ReadableCheckpoint> checkpoints) {
    return {.call = "train", .settings = {}, .checkpoints = std::move(checkpoints)};
  }

  struct Word {
    int from;
    int to;
    wire::Checkpointing said;
  };
  Mutex mutex_;
  std::deque<Word> posted_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::string> warned_;
  std::function<void()> on_mark_;
  std::array<fs::path, kStages> folders_ = {folder_, folder_};
  std::string resume_;
  checkpoint::Retention retention_;
  std::array<std::unique_ptr<NodeCheckpoints>, kStages> nodes_;
};

TEST_F(NodeCheckpointsTest, WithFoldersOfTheirOwnTheOneBeforeStaysUntilAllCanHaveTheNewest) {
  folders_ = {folder_ / "a", folder_ / "b"};
  retention_.keep = 1;
  open();
  ASSERT_TRUE(begin({"run a", 0}).ok());
  for (const std::uint64_t updates : {1, 2, 3}) make(updates);
  EXPECT_THAT(updates_in(folder_ / "a"), ElementsAre(3, 2));
  EXPECT_THAT(updates_in(folder_ / "b"), ElementsAre(3, 2));
}

TEST_F(NodeCheckpointsTest, InASharedFolderTheNewestAloneStaysWhereThatIsAskedFor) {
  retention_.keep = 1;
  open();
  ASSERT_TRUE(begin({"run a", 0}).ok());
  for (const std::uint64_t updates : {1, 2, 3}) make(updates);
  EXPECT_THAT(updates_in(folder_), ElementsAre(3));
}

TEST_F(NodeCheckpointsTest, NoMoreThanOneSnapshotWaits) {
  folders_ = {folder_ / "a", folder_ / "b"};
  std::promise<void> let;
  on_mark_ = [&] { let.get_future().wait(); };  // the root's writer is busy with a manifest
  open();
  ASSERT_TRUE(begin({"run a", 0}).ok());
  root().announce(1, {});
  for (int stage = 0; stage < kStages; ++stage) {
    nodes_[static_cast<std::size_t>(stage)]->take(snapshot(stage, 1));
    nodes_[static_cast<std::size_t>(stage)]->settle();
  }
  std::deque<Word> parts;
  {
    const MutexLock lock(mutex_);
    parts.swap(posted_);
  }
  for (Word& each : parts) ASSERT_TRUE(root().on_message(each.from, std::move(each.said)).ok());
  root().take(snapshot(0, 2));
  root().take(snapshot(0, 3));
  {
    const MutexLock lock(mutex_);
    ASSERT_EQ(posted_.size(), 1U);
    const auto& said = std::get<wire::PartWritten>(posted_.front().said);
    EXPECT_EQ(said.checkpoint, 3U);
    EXPECT_EQ(said.failure, "it still writes that of update 2");
  }
  let.set_value();
  on_mark_ = {};
  deliver();
  EXPECT_THAT(updates_in(folder_ / "b"), ElementsAre(1));
}

TEST_F(NodeCheckpointsTest, ACheckpointOfARunThatWritesThereTooIsNotTornBetweenThem) {
  open();
  ASSERT_TRUE(begin({"run a", 0}).ok());
  write_small(folder_, 1, "run b");
  make(1);
  EXPECT_THAT(warned_, Contains(AllOf(HasSubstr("no checkpoint of update 1: node_"),
                                      HasSubstr("is of run run b, which writes there, too"))));
  EXPECT_TRUE(checkpoint::verified(checkpoint::list_checkpoints(folder_)->complete.at(0)).ok());
}

TEST_F(NodeCheckpointsTest, OfManyTheDigestsOfTheNewestAloneAreComputedAndOfAnotherWhenItIsChosen) {
  for (const std::uint64_t updates : {10, 20, 30}) write_small(folder_, updates, "run a");
  const fs::path part = folder_ / "update_000000010/stage_0.safetensors";
  {
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(part)) - 1);
    file.put('\x7f');
  }
  resume_ = "newest";
  const auto said = readable();
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->size(), 3U);
  EXPECT_THAT(begin({"run a", 10}).message(), HasSubstr("stage_0.safetensors is damaged"));
  ASSERT_TRUE(root().begin({"run a", 20}, {}, {}).ok());
  EXPECT_THAT(updates_in(folder_), ElementsAre(30, 20, 10)) << "another node may not be able to go on from this one";
  ASSERT_TRUE(root().remove_later().ok());
  EXPECT_THAT(updates_in(folder_), ElementsAre(20, 10));
  EXPECT_THAT(warned_, Contains("removes what came after the checkpoint of update 20: that of update 30"));
}

TEST_F(NodeCheckpointsTest, WhoIsInterruptedDoesNotWaitForDigests) {
  write_small(folder_, 10, "run a");
  resume_ = "newest";
  EXPECT_EQ(readable([] { return cancelled("node_0 was interrupted"); }).status(), cancelled("node_0 was interrupted"));
}

TEST_F(NodeCheckpointsTest, WithoutAnAccuracyNoneIsTheBest) {
  write_small(folder_, 10, "run a");
  resume_ = "best";
  const auto said = readable();
  ASSERT_TRUE(said.ok());
  EXPECT_THAT(root().choose({ready(*said), ready(*said)}).status().message(),
              HasSubstr("knows how good its weights are"));
}

TEST_F(NodeCheckpointsTest, WhereNodesHaveThoseOfSeveralRunsTheRunsAreNamed) {
  resume_ = "newest";
  open();
  const auto chosen = root().choose({ready({{"run a", 40, {}}}), ready({{"run b", 40, {}}})});
  EXPECT_THAT(chosen.status().message(), AllOf(HasSubstr("node_0 can go on from that of update 40 of run run a"),
                                               HasSubstr("node_1 can go on from that of update 40 of run run b")));
}

TEST_F(NodeCheckpointsTest, SettingsThatMayNotChangeAreRefusedByTheRoot) {
  write_small(folder_, 10, "run a");
  resume_ = "newest";
  open();
  root().set_settings({{"optimizer", "Adam"}, {"seed", "43"}});
  const auto said = root().readable();
  ASSERT_TRUE(said.ok());
  EXPECT_THAT(root().choose({ready(*said), ready(*said)}).status().message(),
              HasSubstr("seed was 42 in the checkpoint of update 10 and is 43 here"));
}

}  // namespace
}  // namespace ravnest::train
