// Averagers of whole clusters over an in-process network, without drivers: the tests say what stages give.
#include "ravnest/average/averager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "ravnest/transport/inproc/network.h"

namespace ravnest::average {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::Pointwise;

TimePoint soon() { return SystemClock().now() + std::chrono::seconds(30); }

std::string node_name(int cluster, int stage) { return text("c", cluster, "s", stage); }

struct Layout {
  std::vector<int> stages;  // by cluster
  std::vector<AveragingPlace> averaging_groups;
};

// Two clusters of two stages, whose averaging groups are their stages.
Layout two_by_two() {
  return {{2, 2}, {{0, {node_name(0, 0), node_name(1, 0)}}, {1, {node_name(0, 1), node_name(1, 1)}}}};
}

// Clusters of one stage each.
Layout in_a_row(int clusters) {
  Layout layout{std::vector<int>(static_cast<std::size_t>(clusters), 1), {{0, {}}}};
  for (int cluster = 0; cluster < clusters; ++cluster)
    layout.averaging_groups[0].nodes.push_back(node_name(cluster, 0));
  return layout;
}

class Averagers : public testing::Test {
 protected:
  struct Node {
    std::unique_ptr<transport::Endpoint> endpoint;
    std::unique_ptr<Averager> averager;
  };

  void open(const Layout& layout, const std::function<void(AveragerOptions&)>& change = {}) {
    for (int cluster = 0; cluster < static_cast<int>(layout.stages.size()); ++cluster) {
      for (int stage = 0; stage < layout.stages[static_cast<std::size_t>(cluster)]; ++stage)
        open(layout, cluster, stage, change);
    }
  }

  void open(const Layout& layout, int cluster, int stage, const std::function<void(AveragerOptions&)>& change = {}) {
    std::vector<std::string> peers;
    AveragerOptions options{.cluster = cluster, .stage = stage, .log = Logger("test", Level::kOff)};
    for (int c = 0; c < static_cast<int>(layout.stages.size()); ++c) {
      options.roots.push_back(node_name(c, 0));
      for (int s = 0; s < layout.stages[static_cast<std::size_t>(c)]; ++s) {
        if (c == cluster) options.nodes.push_back(node_name(c, s));
        if (c != cluster || s != stage) peers.push_back(node_name(c, s));
      }
    }
    const std::string name = node_name(cluster, stage);
    for (const AveragingPlace& averaging_group : layout.averaging_groups) {
      if (averaging_group.nodes[static_cast<std::size_t>(cluster)] == name)
        options.averaging_groups.push_back(averaging_group);
    }
    if (change) change(options);
    Node& node = nodes_[{cluster, stage}];
    node.averager.reset();
    node.endpoint.reset();
    node.endpoint = network_.open(name, peers, {});
    node.averager = std::make_unique<Averager>(std::move(options), *node.endpoint);
  }

  Averager& at(int cluster, int stage = 0) { return *nodes_.at({cluster, stage}).averager; }
  void kill(int cluster, int stage = 0) { nodes_.erase({cluster, stage}); }

  static StageValues values(std::vector<float> parameters, std::vector<float> statistics = {}) {
    return {{std::move(parameters), std::move(statistics)}};
  }

  // Waits for news of the averager, as a driver would.
  void wait_until(int cluster, int stage, const std::function<bool(const Averager&)>& reached) {
    Node& node = nodes_.at({cluster, stage});
    while (!reached(*node.averager)) {
      ASSERT_TRUE(node.averager->rounds().status.ok()) << node.averager->rounds().status;
      ASSERT_LT(SystemClock().now(), soon_);
      (void)node.endpoint->receive(SystemClock().now() + std::chrono::milliseconds(50));
    }
  }
  RoundResult result(int cluster, int stage, std::uint64_t round) {
    wait_until(cluster, stage, [&](const Averager& averager) { return averager.rounds().held >= round; });
    return HasFatalFailure() ? RoundResult{} : at(cluster, stage).take();
  }

  // A cluster of one stage that trains no more takes part in what is asked of it until all are over.
  void end(int cluster, std::uint64_t rounds, const std::vector<float>& parameters) {
    wait_until(cluster, 0,
               [](const Averager& averager) { return averager.rounds().wants_pass || averager.rounds().over; });
    if (HasFatalFailure() || at(cluster).rounds().over) return;
    at(cluster).enter(rounds, 0, {});
    at(cluster).give(rounds, values(parameters));
  }

  transport::inproc::Network network_;
  std::map<std::pair<int, int>, Node> nodes_;
  const TimePoint soon_ = soon();
};

TEST_F(Averagers, AllStagesGetTheMeanOfTheirAveragingGroup) {
  open(two_by_two());
  for (int cluster = 0; cluster < 2; ++cluster) {
    const auto c = static_cast<float>(cluster);
    at(cluster).enter(1, 10, {});
    at(cluster, 0).give(1, values({1 + c, 2 + c}, {8 * c}));
    at(cluster, 1).give(1, values({4 * c}));
  }
  for (int cluster = 0; cluster < 2; ++cluster) {
    const RoundResult first = result(cluster, 0, 1);
    EXPECT_THAT(first.mean.at(0).parameters, ElementsAre(1.5, 2.5));
    EXPECT_THAT(first.mean.at(0).statistics, ElementsAre(4));
    EXPECT_THAT(first.given.at(0).parameters, ElementsAre(1 + cluster, 2 + cluster));
    EXPECT_THAT(result(cluster, 1, 1).mean.at(0).parameters, ElementsAre(2));
  }
}

TEST_F(Averagers, WeightsAreTheSamplesThatWereSeen) {
  open(in_a_row(2));
  at(0).enter(1, 30, {});
  at(1).enter(1, 10, {});
  at(0).give(1, values({4}));
  at(1).give(1, values({0}));
  EXPECT_THAT(result(0, 0, 1).mean.at(0).parameters, ElementsAre(3));
  EXPECT_THAT(result(1, 0, 1).mean.at(0).parameters, ElementsAre(3));
}

TEST_F(Averagers, AFinishedClusterGoesAlongUntilAllHaveFinished) {
  open(in_a_row(2));
  at(0).finish(10, {});
  at(1).enter(1, 30, {});
  at(1).give(1, values({4}));
  wait_until(0, 0, [](const Averager& averager) { return averager.rounds().wants_pass; });
  at(0).enter(1, 10, {});
  at(0).give(1, values({0}));
  EXPECT_THAT(result(0, 0, 1).mean.at(0).parameters, ElementsAre(3));
  EXPECT_FALSE(at(0).rounds().over);
  EXPECT_THAT(result(1, 0, 1).mean.at(0).parameters, ElementsAre(3));
  at(1).finish(20, {});
  end(0, 2, {3});
  end(1, 2, {7});
  EXPECT_THAT(result(0, 0, 2).mean.at(0).parameters, ElementsAre(7));  // it has trained on nothing since
  EXPECT_THAT(result(1, 0, 2).mean.at(0).parameters, ElementsAre(7));
  EXPECT_TRUE(at(0).rounds().over);
  EXPECT_TRUE(at(1).rounds().over);
}

TEST_F(Averagers, OthersGoOnWithoutAClusterThatIsLost) {
  open(in_a_row(3));
  for (int cluster = 0; cluster < 3; ++cluster) at(cluster).enter(1, 1, {});
  at(0).give(1, values({2}));
  at(1).give(1, values({4}));
  for (int cluster = 0; cluster < 2; ++cluster)
    wait_until(cluster, 0, [](const Averager& averager) { return averager.statistics().attempts > 0; });
  kill(2);  // has promised to take part
  EXPECT_THAT(result(0, 0, 1).mean.at(0).parameters, ElementsAre(3));
  EXPECT_THAT(result(1, 0, 1).mean.at(0).parameters, ElementsAre(3));
}

TEST_F(Averagers, AClusterThatComesBackTakesTheOthersWeightsOver) {
  const Layout layout = in_a_row(2);
  open(layout);
  for (int round = 1; round <= 2; ++round) {
    for (int cluster = 0; cluster < 2; ++cluster) {
      at(cluster).enter(static_cast<std::uint64_t>(round), 1, {});
      at(cluster).give(static_cast<std::uint64_t>(round), values({1}));
    }
    (void)result(0, 0, static_cast<std::uint64_t>(round));
    (void)result(1, 0, static_cast<std::uint64_t>(round));
  }
  kill(1);
  open(layout, 1, 0);
  at(1).enter(1, 1000, {});
  at(1).give(1, values({99}));
  wait_until(0, 0, [](const Averager& averager) { return averager.rounds().called; });
  at(0).enter(3, 1, {});
  at(0).give(3, values({5}));
  EXPECT_THAT(result(0, 0, 3).mean.at(0).parameters, ElementsAre(5));
  EXPECT_THAT(result(1, 0, 1).mean.at(0).parameters, ElementsAre(5));
}

TEST_F(Averagers, ThoseWhoNeverComeAreNotWaitedForForEver) {
  const Layout layout = in_a_row(2);
  open(layout, 0, 0, [](AveragerOptions& options) { options.patience = std::chrono::milliseconds(20); });
  at(0).enter(1, 1, {});
  at(0).give(1, values({5}));
  EXPECT_THAT(result(0, 0, 1).mean.at(0).parameters, ElementsAre(5));
}

TEST_F(Averagers, WhoAveragesSomethingElseIsTold) {
  open(in_a_row(2));
  at(0).enter(1, 1, {});
  at(1).enter(1, 1, {});
  at(0).give(1, values({1, 2, 3, 4}));
  at(1).give(1, values({1, 2}));
  Node& node = nodes_.at({0, 0});
  while (node.averager->rounds().status.ok() && SystemClock().now() < soon_)
    (void)node.endpoint->receive(SystemClock().now() + std::chrono::milliseconds(50));
  EXPECT_THAT(node.averager->rounds().status.message(),
              testing::HasSubstr("c1s0 does not average what this node does"));
}

TEST_F(Averagers, LongVectorsGoThroughInChunks) {
  open(in_a_row(3));
  constexpr std::size_t kCount = 3'000'001;
  for (int cluster = 0; cluster < 3; ++cluster) {
    std::vector<float> own(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      own[i] = static_cast<float>((i + static_cast<std::size_t>(cluster) * 7) % 300);
    at(cluster).enter(1, 1, {});
    at(cluster).give(1, values(std::move(own)));
  }
  const RoundResult first = result(0, 0, 1);
  ASSERT_EQ(first.mean.at(0).parameters.size(), kCount);
  EXPECT_FLOAT_EQ(first.mean[0].parameters[100], 107);
  EXPECT_EQ(result(1, 0, 1).mean.at(0).parameters, first.mean[0].parameters);
  EXPECT_EQ(result(2, 0, 1).mean.at(0).parameters, first.mean[0].parameters);
}

TEST_F(Averagers, WithoutTrainingMomentumDoesNotCarryOn) {
  const OuterOptimizerOptions nesterov{.nesterov = true};
  open(in_a_row(2), [&](AveragerOptions& options) { options.outer = nesterov; });
  const std::vector<float> start(10, 1.0F);
  const std::vector<float> step(10, 0.5F);
  for (int cluster = 0; cluster < 2; ++cluster) at(cluster).begin_with(values(start), {});
  OuterOptimizer expected(nesterov, {start});
  std::vector<float> held = start;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const bool trained = round != 2;
    for (int cluster = 0; cluster < 2; ++cluster) {
      std::vector<float> own = held;
      for (std::size_t i = 0; trained && i < own.size(); ++i) own[i] += step[i];
      at(cluster).enter(round, trained ? 1 : 0, {});
      at(cluster).give(round, values(std::move(own)));
    }
    if (trained) held = expected.take_mean_difference({step}).at(0);
    EXPECT_THAT(result(0, 0, round).mean.at(0).parameters, Pointwise(FloatEq(), held)) << "round " << round;
    EXPECT_THAT(result(1, 0, round).mean.at(0).parameters, Pointwise(FloatEq(), held)) << "round " << round;
  }
}

TEST_F(Averagers, CompressedDifferencesFollowTheMean) {
  const auto compressed = [](AveragerOptions& options) { options.codec = {.kind = codec::CodecKind::kInt8}; };
  open(in_a_row(2), compressed);
  const std::vector<float> start(1000, 1.0F);
  for (int cluster = 0; cluster < 2; ++cluster) at(cluster).begin_with(values(start), {});
  std::vector<float> held = start;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (int cluster = 0; cluster < 2; ++cluster) {
      std::vector<float> own = held;
      for (std::size_t i = 0; i < own.size(); ++i)
        own[i] += 0.001F * static_cast<float>(i % 7) * static_cast<float>(cluster);
      at(cluster).enter(round, 1, {});
      at(cluster).give(round, values(std::move(own)));
    }
    held = result(0, 0, round).mean.at(0).parameters;
    ASSERT_EQ(result(1, 0, round).mean.at(0).parameters, held);
  }
  // What a round loses comes with the next: after twenty the error is still that of one.
  for (std::size_t i = 0; i < held.size(); ++i)
    ASSERT_NEAR(held[i], 1.0F + 20 * 0.0005F * static_cast<float>(i % 7), 1e-4) << i;
}

// What goes from round to round, taken from one run's averagers into another's, which then come to the same bits.
TEST_F(Averagers, ACheckpointHasWhatTheNextRoundGoesOnWith) {
  std::vector<std::pair<std::uint64_t, bool>> told;
  Mutex mutex;
  const auto options = [&](AveragerOptions& options) {
    options.codec = {.kind = codec::CodecKind::kInt8};
    options.outer = {.nesterov = true};
    options.on_checkpoint = [&](const wire::Attempt& attempt, bool can) {
      const MutexLock lock(mutex);
      told.emplace_back(attempt.checkpoint, can);
    };
  };
  const auto step = [&](std::uint64_t round, std::uint64_t number, std::vector<float> held) {
    for (int cluster = 0; cluster < 2; ++cluster) {
      std::vector<float> own = held;
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += 0.01F * static_cast<float>(i * number % 7 + cluster);
      at(cluster).enter(round, 1, {.number = 70, .due = number == 3});
      at(cluster).give(round, values(std::move(own)));
    }
    return std::pair(result(0, 0, round), result(1, 0, round));
  };
  open(in_a_row(2), options);
  const std::vector<float> start(1000, 1.0F);
  for (int cluster = 0; cluster < 2; ++cluster) at(cluster).begin_with(values(start), {});
  std::vector<float> held = start;
  for (std::uint64_t round = 1; round <= 2; ++round) held = step(round, round, held).first.mean.at(0).parameters;
  const auto kept = step(3, 3, held);
  ASSERT_TRUE(kept.first.carried && kept.second.carried);
  EXPECT_FALSE(kept.first.carried->momentum.empty());
  EXPECT_NE(kept.first.carried->residuals, kept.second.carried->residuals);
  held = kept.first.mean.at(0).parameters;
  const std::vector<float> expected = step(4, 4, held).first.mean.at(0).parameters;
  {
    const MutexLock lock(mutex);
    EXPECT_THAT(told, testing::Each(std::pair<std::uint64_t, bool>(70, true)));
    EXPECT_EQ(told.size(), 2U);
  }
  nodes_.clear();
  open(in_a_row(2), options);
  at(0).begin_with(values(held), *kept.first.carried);
  at(1).begin_with(values(held), *kept.second.carried);
  EXPECT_EQ(step(1, 4, held).first.mean.at(0).parameters, expected);
}

}  // namespace
}  // namespace ravnest::average
