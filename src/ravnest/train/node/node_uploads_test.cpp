#include "ravnest/train/node/node_uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "ravnest/base/clock.h"
#include "ravnest/checkpoint/testing/held_bucket.h"

namespace ravnest::train {
namespace {

using checkpoint::Manifest;
using checkpoint::Retention;
using Bucket = checkpoint::testing::HeldBucket;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A root and one stage after it; what they tell the root arrives at once.
class Uploads : public ::testing::Test {
 protected:
  std::unique_ptr<NodeUploads> node(Bucket& bucket, int stage, Retention retention = {}) {
    NodeUploadsOptions options;
    options.retention = retention;
    options.nodes = {"node_0", "node_1"};
    options.tell_root = [this, stage](wire::PartUploaded said) { root_->on_part(stage, said); };
    options.warn = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      lines_.push_back(line);
    };
    return std::make_unique<NodeUploads>(bucket, std::move(options));
  }
  void begin(Retention retention = {}) {
    root_ = node(own_, 0, retention);
    other_ = node(others_, 1);
  }
  static Manifest manifest_of(std::uint64_t updates) {
    Manifest manifest;
    manifest.updates = updates;
    return manifest;
  }
  void make(std::uint64_t updates) {
    root_->upload(updates, "stage_0");
    other_->upload(updates, "stage_1");
    root_->complete(manifest_of(updates));
  }
  // As calls do at their end: the others first.
  void settle() {
    other_->settle();
    root_->settle();
  }
  std::vector<std::string> lines() const {
    const MutexLock lock(mutex_);
    return lines_;
  }

  mutable Mutex mutex_;
  std::vector<std::string> lines_ RAVNEST_GUARDED_BY(mutex_);
  Bucket own_;
  Bucket others_;
  std::unique_ptr<NodeUploads> root_;
  std::unique_ptr<NodeUploads> other_;

  ~Uploads() override { other_.reset(); }  // it tells the root
};

TEST_F(Uploads, TheManifestFollowsWhenAllPartsAreUp) {
  begin();
  others_.hold(true);
  make(80);
  root_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0"));
  others_.hold(false);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
  EXPECT_THAT(others_.there(), ElementsAre("80 stage_1"));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Uploads, PartsMayBeUpBeforeTheCheckpointIsComplete) {
  begin();
  root_->upload(80, "stage_0");
  other_->upload(80, "stage_1");
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0"));
  root_->complete(manifest_of(80));
  root_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
}

TEST_F(Uploads, TheRootIsBehindWhenTwoAreOnTheirWay) {
  begin();
  others_.hold(true);
  make(80);
  EXPECT_FALSE(root_->is_behind());
  make(120);
  EXPECT_TRUE(root_->is_behind());
  others_.hold(false);
  settle();
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "80 manifest", "120 manifest"));
}

TEST_F(Uploads, OnePartThatFailsIsALineAndCostsThatCheckpointAlone) {
  begin();
  others_.refuse("80 stage_1");
  make(80);
  settle();
  make(120);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "120 manifest"));
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(lines(), ElementsAre(AllOf(
                           HasSubstr("the checkpoint of update 80 is on the nodes, but not in s3://lab/run: node_1: "),
                           HasSubstr("the server says 500. There `ravnest cp 80` makes up for it"))));
}

TEST_F(Uploads, AFailureMayComeBeforeTheCheckpointIsComplete) {
  begin();
  own_.refuse("80 stage_0");
  root_->upload(80, "stage_0");
  root_->settle();
  other_->upload(80, "stage_1");
  root_->complete(manifest_of(80));
  settle();
  EXPECT_THAT(own_.there(), IsEmpty());
  EXPECT_FALSE(root_->is_behind());
  EXPECT_EQ(lines().size(), 1);
}

TEST_F(Uploads, AManifestThatFailsIsALine) {
  begin();
  own_.refuse("80 manifest");
  make(80);
  settle();
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("not in s3://lab/run: node_0: the server says 500. There `ravnest cp 80`")));
}

TEST_F(Uploads, AnOlderOneThatCannotBeRemovedIsALine) {
  begin({.keep = 7});
  make(80);
  settle();
  EXPECT_THAT(lines(), ElementsAre("an older checkpoint could not be removed: the server says 403"));
}

TEST_F(Uploads, TheEndOfARunThatFailedDoesNotWaitForTheNetwork) {
  begin();
  own_.hold(true);
  others_.hold(true);
  make(80);
  other_.reset();
  root_.reset();
  EXPECT_THAT(own_.there(), IsEmpty());
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Uploads, WhoWaitsForTheLastOneIsLetGoWhenTheRunIsToEnd) {
  begin();
  own_.hold(true);
  root_->upload(80, "stage_0");
  own_.stop();
  root_->settle();
  EXPECT_THAT(own_.there(), IsEmpty());
}

}  // namespace
}  // namespace ravnest::train
