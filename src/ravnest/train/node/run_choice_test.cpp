#include "ravnest/train/node/run_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace ravnest::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::RunOffer;

using Checkpoints = std::vector<wire::ReadableCheckpoint>;

// Choices of clusters that hear each other in the order in which they speak.
class RunChoices : public testing::Test {
 protected:
  void make(int count) {
    for (int i = 0; i < count; ++i) roots_.push_back(text("node_", 2 * i));
    for (int i = 0; i < count; ++i) choices_.push_back(std::make_unique<RunChoice>(fresh(i)));
    presence_.assign(static_cast<std::size_t>(count), Presence::kThere);
  }
  RunChoice fresh(int cluster) const { return RunChoice(cluster, roots_, text("run_of_", cluster)); }

  RunChoice& at(int cluster) { return *choices_[static_cast<std::size_t>(cluster)]; }
  bool there(int cluster) const { return presence_[static_cast<std::size_t>(cluster)] == Presence::kThere; }

  void offer(int cluster, Checkpoints checkpoints, std::string wanted = "newest") {
    at(cluster).offer({std::move(wanted), std::move(checkpoints)});
    deliver();
  }
  void look(bool patient = true) {
    for (int i = 0; i < static_cast<int>(choices_.size()); ++i) {
      if (there(i)) at(i).look(presence_, patient);
    }
    deliver();
  }
  void deliver() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = 0; from < static_cast<int>(choices_.size()); ++from) {
        for (auto& [to, message] : at(from).take_sends()) {
          moved = true;
          if (there(from) && there(to)) EXPECT_TRUE(at(to).on_message(from, message).ok());
        }
      }
    }
  }
  wire::CheckpointRun chosen(int cluster) {
    const auto chosen = at(cluster).chosen();
    EXPECT_TRUE(chosen && chosen->ok());
    return chosen && chosen->ok() ? **chosen : wire::CheckpointRun();
  }
  std::string failure(int cluster) {
    const auto chosen = at(cluster).chosen();
    return chosen ? chosen->status().message() : "nothing is chosen";
  }

  std::vector<std::string> roots_;
  std::vector<std::unique_ptr<RunChoice>> choices_;
  std::vector<Presence> presence_;
};

TEST_F(RunChoices, AllGoOnFromTheNewestThatAllCanRead) {
  make(3);
  look();
  offer(2, {{"a", 80, {}}, {"a", 40, {}}});
  offer(0, {{"a", 120, {}}, {"a", 80, {}}, {"a", 40, {}}});
  EXPECT_THAT(at(0).waiting_for(), ElementsAre(1));
  EXPECT_FALSE(at(0).chosen());
  offer(1, {{"a", 80, {}}, {"a", 40, {}}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(chosen(i), (wire::CheckpointRun{"a", 80})) << i;
  EXPECT_FALSE(at(1).came_late());
}

TEST_F(RunChoices, OnlyOneDecidesWhoeverHasLookedAtTheOthers) {
  make(2);
  offer(0, {});
  offer(1, {});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(chosen(i), (wire::CheckpointRun{"run_of_0", 0})) << i;
}

TEST_F(RunChoices, TheBestIsTakenWhereThatIsAskedFor) {
  make(2);
  for (int i = 0; i < 2; ++i) offer(i, {{"a", 120, 90.0}, {"a", 80, 95.0}}, "best");
  look();
  EXPECT_EQ(chosen(1), (wire::CheckpointRun{"a", 80}));
}

TEST_F(RunChoices, WithoutCheckpointsARunOfOneNameBegins) {
  make(3);
  for (int i = 0; i < 3; ++i) offer(i, {});
  look();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(chosen(i), (wire::CheckpointRun{"run_of_0", 0}));
}

TEST_F(RunChoices, ClustersWithNothingInCommonAreAllToldWhoHasWhat) {
  make(2);
  offer(0, {{"a", 80, {}}});
  offer(1, {{"a", 40, {}}});
  look();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(failure(i),
                HasSubstr("cluster 0 (node_0) can go on from that of update 80; cluster 1 (node_2) can go on "
                          "from that of update 40"));
  }
}

TEST_F(RunChoices, ClustersThatWereToldDifferentThingsAreAllToldSo) {
  make(2);
  offer(0, {{"a", 80, {}}});
  offer(1, {}, "");
  look();
  EXPECT_EQ(failure(1),
            "cluster 0 (node_0) was told to go on from newest, and cluster 1 (node_2) to begin anew: tell "
            "all nodes the same");
}

TEST_F(RunChoices, AClusterWhoseNodesDisagreeEndsItForAllThatWait) {
  make(2);
  offer(0, {});
  at(1).fail("no checkpoint can be read by all nodes");
  deliver();
  look();
  EXPECT_EQ(failure(0), "no checkpoint can be read by all nodes");
}

TEST_F(RunChoices, OneThatWasNeverSeenIsNotWaitedForForEver) {
  make(2);
  presence_[1] = Presence::kNeverSeen;
  offer(0, {{"a", 80, {}}});
  look();
  EXPECT_FALSE(at(0).chosen());
  look(/*patient=*/false);
  EXPECT_EQ(chosen(0), (wire::CheckpointRun{"a", 80}));
  EXPECT_THAT(at(0).left_out(), ElementsAre(1));
}

TEST_F(RunChoices, WhoComesLateTakesUpItsPartOfTheRun) {
  make(2);
  presence_[1] = Presence::kNeverSeen;
  offer(0, {{"a", 80, {}}});
  look(/*patient=*/false);
  presence_[1] = Presence::kThere;
  offer(1, {{"b", 300, {}}, {"a", 120, {}}, {"a", 80, {}}});
  EXPECT_TRUE(at(1).came_late());
  EXPECT_EQ(chosen(1), (wire::CheckpointRun{"a", 120}));
  EXPECT_EQ(chosen(0), (wire::CheckpointRun{"a", 80}));
}

TEST_F(RunChoices, WhoComesBackComesLateThoughItWasThereWhenTheRunBegan) {
  make(2);
  for (int i = 0; i < 2; ++i) offer(i, {{"a", 80, {}}});
  look();
  at(0).gone(1);
  choices_[1] = std::make_unique<RunChoice>(fresh(1));
  offer(1, {{"a", 120, {}}, {"a", 80, {}}});
  EXPECT_TRUE(at(1).came_late());
  EXPECT_EQ(chosen(1), (wire::CheckpointRun{"a", 120}));
}

TEST_F(RunChoices, WhereTheFirstIsLostTheNextDecides) {
  make(3);
  offer(1, {{"a", 80, {}}});
  offer(2, {{"a", 80, {}}});
  look();
  EXPECT_THAT(at(1).waiting_for(), ElementsAre(0));
  presence_[0] = Presence::kGone;
  look();
  for (const int i : {1, 2}) EXPECT_EQ(chosen(i), (wire::CheckpointRun{"a", 80}));
}

TEST_F(RunChoices, ADecisionThatReachedOneReachesAll) {
  make(3);
  for (int i = 0; i < 3; ++i) at(i).look(presence_, true);
  for (int i = 0; i < 3; ++i) at(i).offer({"newest", {}});
  for (int from = 0; from < 3; ++from) {
    for (auto& [to, message] : at(from).take_sends()) EXPECT_TRUE(at(to).on_message(from, message).ok());
  }
  // The first has decided, and reaches the last only.
  for (auto& [to, message] : at(0).take_sends()) {
    if (to == 2) EXPECT_TRUE(at(2).on_message(0, message).ok());
  }
  presence_[0] = Presence::kGone;
  deliver();
  EXPECT_EQ(chosen(1), (wire::CheckpointRun{"run_of_0", 0}));
}

TEST_F(RunChoices, WhoTrainsIsNotStoppedByOneThatCanNot) {
  make(2);
  presence_[1] = Presence::kGone;
  offer(0, {});
  look();
  presence_[1] = Presence::kThere;
  at(1).fail("no space");
  deliver();
  EXPECT_EQ(chosen(0), (wire::CheckpointRun{"run_of_0", 0}));
}

}  // namespace
}  // namespace ravnest::train
