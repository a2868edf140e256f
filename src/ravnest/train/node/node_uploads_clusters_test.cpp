// Checkpoints of several clusters on their way to object storage: their roots, which say to each other what they would
// on a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "ravnest/base/text.h"
#include "ravnest/checkpoint/testing/held_bucket.h"
#include "ravnest/train/node/node_uploads.h"

namespace ravnest::train {
namespace {

using checkpoint::Manifest;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The first cluster, whose root puts the manifests, has one node; the second has two. So there are two roots and a
// stage.
class ClustersUploads : public ::testing::Test {
 protected:
  ClustersUploads() {
    first_ = node(own_, 0, 0, {"node_0"});
    second_ = node(others_, 1, 0, {"node_1", "node_2"});
    stage_ = node(stages_, 1, 1, {"node_1", "node_2"});
  }
  ~ClustersUploads() override {
    for (auto* each : {&stage_, &second_, &first_}) each->reset();
  }

  std::unique_ptr<NodeUploads> node(checkpoint::Store& bucket, std::uint32_t cluster, int stage,
                                    std::vector<std::string> nodes) {
    NodeUploadsOptions options;
    options.nodes = std::move(nodes);
    options.tell_root = [this, cluster, stage](wire::PartUploaded said) { root(cluster).on_part(stage, said); };
    options.tell_cluster = [this, cluster](std::uint32_t to, wire::PartUploaded said) {
      const MutexLock lock(mutex_);
      said_.push_back({cluster, to, std::move(said)});
    };
    options.name_of = [](std::uint32_t other) { return text("cluster ", other); };
    options.warn = [this, cluster](const std::string& line) {
      const MutexLock lock(mutex_);
      lines_.push_back(text(cluster, ": ", line));
    };
    return std::make_unique<NodeUploads>(bucket, std::move(options));
  }
  NodeUploads& root(std::uint32_t cluster) { return cluster == 0 ? *first_ : *second_; }

  static Manifest manifest_of(std::uint64_t updates) {
    Manifest manifest;
    manifest.updates = updates;
    return manifest;
  }
  // Complete on the nodes.
  void make(std::uint64_t updates) {
    first_->upload(updates, "stage_0");
    second_->upload(updates, "stage_0");
    stage_->upload(updates, "stage_1");
    first_->complete(manifest_of(updates), {1});
    second_->complete_at(0, updates);
  }
  // Until nobody has anything to say or to put.
  void settle() {
    for (bool moved = true; moved;) {
      for (NodeUploads* each : {stage_.get(), second_.get(), first_.get()}) each->settle();
      std::deque<Said> said;
      {
        const MutexLock lock(mutex_);
        said.swap(said_);
      }
      moved = !said.empty();
      for (const Said& each : said) root(each.to).on_cluster(each.from, each.what);
    }
  }
  static bool is_up(const NodeUploads& root) { return root.is_up_by(TimePoint()); }
  std::vector<std::string> lines() const {
    const MutexLock lock(mutex_);
    return lines_;
  }

  struct Said {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    wire::PartUploaded what;
  };
  mutable Mutex mutex_;
  std::deque<Said> said_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::string> lines_ RAVNEST_GUARDED_BY(mutex_);
  checkpoint::testing::HeldBucket own_;
  checkpoint::testing::HeldBucket others_;
  checkpoint::testing::HeldBucket stages_;
  std::unique_ptr<NodeUploads> first_;
  std::unique_ptr<NodeUploads> second_;
  std::unique_ptr<NodeUploads> stage_;
};

TEST_F(ClustersUploads, TheManifestIsPutOnceWhenThePartsOfAllAreUp) {
  stages_.hold(true);
  make(80);
  first_->settle();
  second_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0"));
  EXPECT_FALSE(is_up(*first_));
  EXPECT_FALSE(is_up(*second_)) << "who waits for the end of the run waits for it, too";
  stages_.hold(false);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
  EXPECT_THAT(others_.there(), ElementsAre("80 stage_0"));
  EXPECT_TRUE(is_up(*first_) && is_up(*second_));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(ClustersUploads, PartsMayBeUpBeforeTheCheckpointIsComplete) {
  second_->upload(80, "stage_0");
  stage_->upload(80, "stage_1");
  settle();
  first_->upload(80, "stage_0");
  first_->complete(manifest_of(80), {1});
  second_->complete_at(0, 80);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
}

TEST_F(ClustersUploads, AllAreBehindWhenTwoAreOnTheirWay) {
  own_.hold(true);
  for (const std::uint64_t updates : {80, 120}) make(updates);
  EXPECT_TRUE(first_->is_behind() && second_->is_behind());
  own_.hold(false);
  settle();
  EXPECT_FALSE(first_->is_behind() || second_->is_behind());
  EXPECT_THAT(own_.there(), Contains("120 manifest"));
}

TEST_F(ClustersUploads, OnePartThatFailsIsALineWhereTheManifestIsPutAndCostsThatCheckpointAlone) {
  stages_.refuse("80 stage_1");
  for (const std::uint64_t updates : {80, 120}) {
    make(updates);
    settle();
  }
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "120 manifest"));
  EXPECT_THAT(lines(),
              ElementsAre("0: the checkpoint of update 80 is on the nodes, but not in s3://lab/run: node_2: the server "
                          "says 500. There `ravnest cp 80` makes up for it"));
  EXPECT_TRUE(is_up(*first_) && is_up(*second_));
}

TEST_F(ClustersUploads, EveryPartThatFailsHasItsLineInWhateverOrderTheyCome) {
  own_.refuse("80 stage_0");
  others_.refuse("80 stage_0");
  stages_.refuse("80 stage_1");
  second_->upload(80, "stage_0");
  second_->settle();
  first_->upload(80, "stage_0");
  first_->complete(manifest_of(80), {1});
  second_->complete_at(0, 80);
  settle();
  stage_->upload(80, "stage_1");  // when the others have given it up
  settle();
  EXPECT_THAT(lines(), ::testing::UnorderedElementsAre(HasSubstr("node_0: the server"), HasSubstr("node_1: the server"),
                                                       HasSubstr("node_2: the server")));
  EXPECT_TRUE(is_up(*first_) && is_up(*second_));
}

TEST_F(ClustersUploads, AManifestThatFailsIsALineAndNobodyWaitsForIt) {
  own_.refuse("80 manifest");
  make(80);
  settle();
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("0: the checkpoint of update 80 is on the nodes, but not in")));
  EXPECT_TRUE(is_up(*first_) && is_up(*second_));
}

TEST_F(ClustersUploads, AClusterThatIsLostBeforeItsPartsAreThereCostsThatCheckpointAlone) {
  stages_.hold(true);
  make(80);
  first_->settle();
  first_->on_cluster_gone(1);
  EXPECT_THAT(lines(), ElementsAre("0: the checkpoint of update 80 is on the nodes, but not in s3://lab/run: cluster 1 "
                                   "was lost before its parts were there"));
  EXPECT_TRUE(is_up(*first_));
  first_->upload(120, "stage_0");
  first_->complete(manifest_of(120));
  first_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "120 manifest"));
  stages_.hold(false);
}

TEST_F(ClustersUploads, AClusterThatIsLostWhenItsPartsAreThereCostsNothing) {
  own_.hold(true);
  make(80);
  stage_->settle();
  second_->settle();
  {
    const MutexLock lock(mutex_);
    ASSERT_EQ(said_.size(), 1U);
    first_->on_cluster(1, said_.front().what);
    said_.clear();
  }
  first_->on_cluster_gone(1);
  own_.hold(false);
  first_->settle();
  EXPECT_THAT(own_.there(), Contains("80 manifest"));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(ClustersUploads, WhereWhoPutsTheManifestIsLostTheOthersGoOnAndSaySo) {
  make(80);
  stage_->settle();
  second_->settle();
  second_->on_cluster_gone(0);
  EXPECT_TRUE(is_up(*second_));
  EXPECT_THAT(lines(),
              ElementsAre("1: whether the checkpoint of update 80 is in s3://lab/run is not known here: cluster "
                          "0, which puts its manifest, was lost"));
  // The next one is its own.
  second_->upload(120, "stage_0");
  stage_->upload(120, "stage_1");
  second_->complete(manifest_of(120));
  for (NodeUploads* each : {stage_.get(), second_.get()}) each->settle();
  second_->settle();
  EXPECT_THAT(others_.there(), ElementsAre("80 stage_0", "120 stage_0", "120 manifest"));
}

TEST_F(ClustersUploads, WhatIsSaidOfACheckpointThatNobodyKnowsChangesNothing) {
  first_->on_cluster(1, {80, {}});
  second_->on_cluster(0, {80, "no"});
  settle();
  EXPECT_THAT(own_.there(), Not(Contains("80 manifest")));
  EXPECT_THAT(lines(), IsEmpty());
}

}  // namespace
}  // namespace ravnest::train
