// Checkpoints of several clusters: their roots, which say to each other what they would on a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "ravnest/base/testing/folders.h"
#include "ravnest/checkpoint/testing/checkpoints.h"
#include "ravnest/checkpoint/verify.h"
#include "ravnest/train/node/node_checkpoints.h"

namespace ravnest::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kClusters = 2;
const checkpoint::DataPosition kPosition{.epoch = 1, .index = 3, .trained = 10, .passes = 10, .updates = 10};

// Each cluster is one node, so that its root has all of its parts.
class ClustersCheckpoints : public test::FolderTest {
 protected:
  ClustersCheckpoints() {
    for (std::uint32_t cluster = 0; cluster < kClusters; ++cluster) open(cluster);
  }
  ~ClustersCheckpoints() override {
    for (auto& root : roots_) root.reset();
  }

  NodeCheckpointsOptions options(std::uint32_t cluster, std::uint32_t clusters, const std::string& plan) {
    NodeCheckpointsOptions options;
    options.checkpoints.folder = folder_ / "checkpoints";
    options.checkpoints.resume = "newest";
    options.plan = plan;
    options.nodes = {text("node_", cluster)};
    options.cluster = cluster;
    options.clusters = clusters;
    for (std::uint32_t each = 0; each < clusters; ++each) options.roots.push_back(text("node_", each));
    options.post = [this, cluster](int, wire::Checkpointing said) { say(cluster, cluster, std::move(said)); };
    options.post_to_cluster = [this, cluster](std::uint32_t to, wire::Checkpointing said) {
      say(cluster, to, std::move(said));
    };
    options.mark = [](std::uint64_t) { return RecordMark{.accuracies = 2, .window_loss = 0.5}; };
    options.warn = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      warnings_.push_back(line);
    };
    return options;
  }
  void open(std::uint32_t cluster) {
    roots_[cluster] = std::make_unique<NodeCheckpoints>(options(cluster, kClusters, "plan a"));
    at(cluster).set_settings({{"shard", "true"}});
    ASSERT_TRUE(at(cluster).readable().ok());
    ASSERT_TRUE(at(cluster).begin({"run a", 0}, {}, {}).ok());
  }

  NodeCheckpoints& at(std::uint32_t cluster) { return *roots_[cluster]; }

  // A round holds at the cluster, and its stage takes its snapshot.
  void hold(std::uint32_t cluster, std::uint64_t checkpoint) {
    at(cluster).expect({0, 1});
    at(cluster).announce_with_others(checkpoint, kPosition);
  }
  void snapshot(std::uint32_t cluster, std::uint64_t checkpoint) {
    at(cluster).take({checkpoint, checkpoint::testing::small_stage(1), nullptr});
  }
  // Until nobody has anything to say or to write.
  void settle() {
    for (bool moved = true; moved;) {
      for (auto& root : roots_) root->settle();
      std::deque<Said> said;
      {
        const MutexLock lock(mutex_);
        said.swap(said_);
      }
      moved = !said.empty();
      for (Said& each : said) {
        if (each.from == lost_ || each.to == lost_) continue;
        EXPECT_TRUE(each.from == each.to ? at(each.to).on_message(0, std::move(each.what)).ok()
                                         : at(each.to).on_cluster(each.from, std::move(each.what)).ok());
      }
    }
  }
  checkpoint::Listing listing() { return checkpoint::list_checkpoints(folder_ / "checkpoints").value(); }
  std::vector<std::string> warnings() {
    const MutexLock lock(mutex_);
    return warnings_;
  }

  struct Said {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    wire::Checkpointing what;
  };
  void say(std::uint32_t from, std::uint32_t to, wire::Checkpointing what) {
    const MutexLock lock(mutex_);
    said_.push_back({from, to, std::move(what)});
  }

  std::optional<std::uint32_t> lost_;

 private:
  Mutex mutex_;
  std::deque<Said> said_ RAVNEST_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ RAVNEST_GUARDED_BY(mutex_);
  std::unique_ptr<NodeCheckpoints> roots_[kClusters];
};

TEST_F(ClustersCheckpoints, HaveThePartsAndPlacesOfAll) {
  // The second is ahead of the first, which gathers.
  hold(1, 40);
  snapshot(1, 40);
  settle();
  EXPECT_THAT(listing().complete, IsEmpty());
  hold(0, 40);
  snapshot(0, 40);
  settle();
  ASSERT_EQ(listing().complete.size(), 1U);
  const checkpoint::Manifest manifest = listing().complete[0].manifest;
  EXPECT_TRUE(checkpoint::has_part(manifest, "cluster_0_stage_0"));
  EXPECT_TRUE(checkpoint::has_part(manifest, "cluster_1_stage_0"));
  EXPECT_EQ(manifest.positions.size(), 2U);
  EXPECT_EQ(checkpoint::position_of(manifest, 1).updates, 10U);
  EXPECT_EQ(checkpoint::position_of(manifest, 1).validations, 2U);
  EXPECT_TRUE(checkpoint::verified(listing().complete[0]).ok());
  for (const std::uint32_t cluster : {0, 1}) {
    EXPECT_FALSE(at(cluster).under_way());
    EXPECT_EQ(at(cluster).last(), 40U);
  }
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(ClustersCheckpoints, AreGivenUpWhenAClusterIsLostBeforeItsPartsAreThere) {
  for (const std::uint32_t cluster : {0, 1}) hold(cluster, 40);
  snapshot(0, 40);
  settle();
  EXPECT_TRUE(at(0).under_way());
  lost_ = 1;
  at(0).on_cluster_gone(1);
  settle();
  EXPECT_FALSE(at(0).under_way());
  EXPECT_THAT(warnings(), ElementsAre("no checkpoint of update 40: cluster 1 (node_1) was lost; there is none yet"));
  EXPECT_THAT(listing().complete, IsEmpty());
  // The next one is of those that are there.
  at(0).expect({0});
  at(0).announce_with_others(41, kPosition);
  snapshot(0, 41);
  settle();
  ASSERT_EQ(listing().complete.size(), 1U);
  EXPECT_EQ(listing().complete[0].manifest.parts.size(), 1U);
  EXPECT_EQ(listing().complete[0].manifest.world, 2U) << "of that many clusters it has its share of the data";
}

TEST_F(ClustersCheckpoints, AreGivenUpWhenWhoGathersIsLost) {
  for (const std::uint32_t cluster : {0, 1}) hold(cluster, 40);
  snapshot(1, 40);
  settle();
  lost_ = 0;
  at(1).on_cluster_gone(0);
  settle();
  EXPECT_FALSE(at(1).under_way());
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("cluster 0 (node_0) was lost")));
}

// As at the end of training, where what is validated comes between.
TEST_F(ClustersCheckpoints, AreGivenUpWhenAClusterIsLostBeforeTheyAreBegun) {
  for (const std::uint32_t cluster : {0, 1}) at(cluster).expect({0, 1});
  lost_ = 1;
  at(0).on_cluster_gone(1);
  at(0).announce_with_others(40, kPosition);
  snapshot(0, 40);
  settle();
  EXPECT_FALSE(at(0).under_way());
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("cluster 1 (node_1) was lost")));
}

// The next round, which may hold before the loss is told of here, is not of that cluster any more.
TEST_F(ClustersCheckpoints, AreGivenUpWhenAClusterIsLostOfWhichTheNextRoundIsNot) {
  for (const std::uint32_t cluster : {0, 1}) hold(cluster, 40);
  snapshot(0, 40);
  settle();
  at(0).expect({0});
  lost_ = 1;
  at(0).on_cluster_gone(1);
  settle();
  EXPECT_FALSE(at(0).under_way());
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("cluster 1 (node_1) was lost")));
}

TEST_F(ClustersCheckpoints, WhereOneCanNotMakeItsPartAllGoOnWithoutIt) {
  hold(0, 40);
  at(1).expect({0, 1});
  at(1).announce_failure(40, "node_1: no space");
  snapshot(0, 40);
  settle();
  for (const std::uint32_t cluster : {0, 1}) EXPECT_FALSE(at(cluster).under_way()) << cluster;
  EXPECT_THAT(warnings(),
              ElementsAre("no checkpoint of update 40: node_1: no space; there is none yet",
                          "no checkpoint of update 40: cluster 0 (node_0) has given it up, and says why there; "
                          "there is none yet"));
  EXPECT_THAT(listing().complete, IsEmpty());
}

TEST_F(ClustersCheckpoints, GiveOneClusterOrAnotherPlanThePlaceWhereAllWere) {
  for (const std::uint32_t cluster : {0, 1}) {
    hold(cluster, 40);
    snapshot(cluster, 40);
  }
  settle();
  NodeCheckpoints alone(options(0, 1, "plan b"));
  const auto readable = alone.readable();
  ASSERT_TRUE(readable.ok()) << readable.status();
  ASSERT_EQ(readable->size(), 1U);
  ASSERT_TRUE(alone.begin({"run a", 40}, {"body.weight"}, {}).ok());
  // Two clusters had half of the samples each: three batches of each are six of all.
  EXPECT_EQ(alone.resumed()->position.index, 6U);
  EXPECT_EQ(alone.resumed()->position.trained, 20U);
  EXPECT_EQ(alone.resumed()->position.passes, 10U);
}

}  // namespace
}  // namespace ravnest::train
