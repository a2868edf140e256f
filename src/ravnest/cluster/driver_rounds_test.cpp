// Drivers whose cluster averages its weights with others; of those there is only what they would ask and tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "ravnest/base/mutex.h"
#include "ravnest/cluster/testing/driver.h"

namespace ravnest::cluster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kStages = 3;

// What the stages of a cluster share of its rounds. A round holds when all stages have given to it.
class OtherClusters {
 public:
  struct Entered {
    std::uint64_t round = 0;
    std::uint64_t samples = 0;

    bool operator==(const Entered&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const Entered& one) {
      return out << "round " << one.round << " with " << one.samples << " samples";
    }
  };

  OtherClusters() {
    for (int stage = 0; stage < kStages; ++stage) places_.push_back(std::make_unique<Place>(*this));
  }

  std::vector<average::Averaging*> places() const {
    std::vector<average::Averaging*> all;
    for (const auto& place : places_) all.push_back(place.get());
    return all;
  }
  void interrupt_with(std::function<void()> interrupt) { interrupt_ = std::move(interrupt); }

  // Whether they let a call end as soon as it has no more passes, by one more round.
  void keep_training(bool training) {
    change([&]() RAVNEST_REQUIRES(mutex_) { others_train_ = training; });
  }
  void call() {
    change([&]() RAVNEST_REQUIRES(mutex_) { called_ = true; });
  }
  // They train again as soon as they have agreed to end a call, and need a round.
  void train_again_at_the_end() {
    change([&]() RAVNEST_REQUIRES(mutex_) { train_again_ = true; });
  }
  void wait_for_finish() {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(mutex_, soon(), [&]() RAVNEST_REQUIRES(mutex_) { return finished_; }));
  }

  std::vector<Entered> entered() const {
    const MutexLock lock(mutex_);
    return entered_;
  }
  Numbers samples_at_finish() const {
    const MutexLock lock(mutex_);
    return samples_at_finish_;
  }
  int resumed() const {
    const MutexLock lock(mutex_);
    return resumed_;
  }

 private:
  // As one stage sees it.
  class Place final : public average::Averaging {
   public:
    explicit Place(OtherClusters& all) : all_(all) {}

    void begin_with(average::StageValues, average::CarriedState) override {}
    void give(std::uint64_t round, average::StageValues values) override {
      all_.change([&]() RAVNEST_REQUIRES(all_.mutex_) {
        EXPECT_EQ(round, all_.held_ + 1);
        EXPECT_EQ(taken_, all_.held_) << "what the last round made is not taken in";
        all_.given_.push_back(values.at(0).parameters.at(0));
        EXPECT_EQ(all_.given_.back(), all_.given_.front()) << "the weights are not of the same update";
        if (all_.given_.size() == kStages) {
          all_.given_.clear();
          all_.held_ = round;
          if (all_.finished_) all_.over_ = !all_.others_train_;
        }
      });
    }
    average::RoundState rounds() const override { return all_.rounds(); }
    average::RoundResult take() override {
      all_.change([&]() RAVNEST_REQUIRES(all_.mutex_) {
        EXPECT_EQ(taken_ + 1, all_.held_);
        taken_ = all_.held_;
      });
      return {};
    }
    void enter(std::uint64_t round, std::uint64_t samples, average::Capture) override {
      all_.change([&]() RAVNEST_REQUIRES(all_.mutex_) {
        all_.entered_.push_back({round, samples});
        all_.called_ = all_.wants_pass_ = false;
      });
    }
    void finish(std::uint64_t samples, average::Capture) override {
      all_.change([&]() RAVNEST_REQUIRES(all_.mutex_) {
        all_.finished_ = true;
        all_.samples_at_finish_.push_back(samples);
      });
    }
    void resume() override {
      all_.change([&]() RAVNEST_REQUIRES(all_.mutex_) {
        all_.finished_ = all_.over_ = false;
        ++all_.resumed_;
      });
    }

   private:
    OtherClusters& all_;
    std::uint64_t taken_ = 0;
  };

  average::RoundState rounds() {
    const MutexLock lock(mutex_);
    if (over_ && std::exchange(train_again_, false)) wants_pass_ = true;
    const bool last = finished_ && !over_ && !others_train_ && entered_.size() == held_;
    return {.held = held_,
            .called = called_,
            .wants_pass = last || wants_pass_,
            .finished = finished_,
            .over = over_,
            .waiting_for = {"node_9"}};
  }
  void change(const std::function<void()>& how) {
    {
      const MutexLock lock(mutex_);
      how();
    }
    changed_.notify_all();
    if (interrupt_) interrupt_();
  }

  std::function<void()> interrupt_;
  std::vector<std::unique_ptr<Place>> places_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<float> given_ RAVNEST_GUARDED_BY(mutex_);  // to the round that comes next
  std::uint64_t held_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::vector<Entered> entered_ RAVNEST_GUARDED_BY(mutex_);
  Numbers samples_at_finish_ RAVNEST_GUARDED_BY(mutex_);
  int resumed_ RAVNEST_GUARDED_BY(mutex_) = 0;
  bool others_train_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool called_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool finished_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool over_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool wants_pass_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool train_again_ RAVNEST_GUARDED_BY(mutex_) = false;
};

using Entered = OtherClusters::Entered;

struct AveragingCluster {
  AveragingCluster(std::uint64_t every, stage::AverageMode mode)
      : cluster(kStages, {.rounds = {.held = true, .every = every, .mode = mode}, .averaging = others.places()}) {
    others.interrupt_with([this] {
      for (int stage = 0; stage < kStages; ++stage) cluster.endpoint(stage).interrupt();
    });
  }

  void train(std::uint64_t passes) {
    for (std::uint64_t i = 0; i < passes; ++i) ASSERT_TRUE(cluster.offer({.batch = i, .samples = 10}).ok());
    ASSERT_TRUE(cluster.drain().ok());
  }
  void expect_to_end_well() {
    for (const Status& ended : cluster.finish()) EXPECT_TRUE(ended.ok()) << ended;
  }

  OtherClusters others;
  StubCluster cluster;
};

Numbers from_one(std::uint64_t count) {
  Numbers numbers;
  for (std::uint64_t i = 1; i <= count; ++i) numbers.push_back(i);
  return numbers;
}

TEST(DriverRounds, WeightsAreAveragedWhileTheTrainingGoesOn) {
  AveragingCluster averaging(4, stage::AverageMode::kOverlap);
  averaging.train(18);
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(),
              ElementsAre(Entered{1, 40}, Entered{2, 40}, Entered{3, 40}, Entered{4, 40}, Entered{5, 20}));
  EXPECT_THAT(averaging.others.samples_at_finish(), ElementsAre(20));
  for (int stage = 0; stage < kStages; ++stage) {
    const StubWorker& worker = averaging.cluster.worker(stage);
    EXPECT_EQ(worker.forwards(), up_to(18)) << stage;
    EXPECT_EQ(worker.updates(), 18U + 1U) << stage;  // the last round has a pass of its own
    EXPECT_EQ(worker.rounds_given(), from_one(5)) << stage;
    EXPECT_EQ(worker.rounds_taken(), from_one(5)) << stage;
  }
  EXPECT_EQ(averaging.cluster.reports(), up_to(18));
}

TEST(DriverRounds, ADrainedClusterAveragesBetweenPasses) {
  AveragingCluster averaging(4, stage::AverageMode::kDrain);
  averaging.train(12);
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 40}, Entered{2, 40}, Entered{3, 40}));
  for (int stage = 0; stage < kStages; ++stage) {
    const StubWorker& worker = averaging.cluster.worker(stage);
    EXPECT_THAT(worker.forwards(), ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13)) << stage;
    EXPECT_EQ(worker.updates_at_forward(5), 4U + 1U) << stage;
    EXPECT_EQ(worker.rounds_taken(), from_one(3)) << stage;
  }
  averaging.expect_to_end_well();
  EXPECT_EQ(averaging.others.entered().back(), (Entered{4, 0}));
}

TEST(DriverRounds, ACallThatHasFinishedTakesPartUntilTheOthersLetItEnd) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.others.keep_training(true);
  averaging.train(6);
  auto ending = std::async(std::launch::async, [&] { return averaging.cluster.finish(); });
  averaging.others.wait_for_finish();
  EXPECT_THAT(averaging.others.entered(), IsEmpty());
  averaging.others.keep_training(false);
  for (const Status& ended : ending.get()) EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 60}));
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_EQ(averaging.cluster.worker(stage).rounds_taken(), from_one(1)) << stage;
  }
}

TEST(DriverRounds, AClusterSaysForWhomItsCallWaits) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.others.keep_training(true);
  averaging.train(2);
  EXPECT_THAT(averaging.cluster.driver(0).waiting_for(), IsEmpty());
  auto ending = std::async(std::launch::async, [&] { return averaging.cluster.finish(); });
  averaging.others.wait_for_finish();
  const TimePoint deadline = soon();
  while (averaging.cluster.driver(0).waiting_for().empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  EXPECT_THAT(averaging.cluster.driver(0).waiting_for(), ElementsAre("node_9"));
  averaging.others.keep_training(false);
  for (const Status& ended : ending.get()) EXPECT_TRUE(ended.ok()) << ended;
}

TEST(DriverRounds, ARoundThatIsCalledForIsEnteredWithTheNextUpdate) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.train(3);
  averaging.others.call();
  averaging.train(5);
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 40}));
  averaging.expect_to_end_well();
}

TEST(DriverRounds, ACallThatTrainsAgainIsToldToTheOthers) {
  AveragingCluster averaging(2, stage::AverageMode::kOverlap);
  averaging.train(3);
  averaging.expect_to_end_well();
  EXPECT_EQ(averaging.others.resumed(), 0);
  averaging.cluster.run_again();
  averaging.train(3);
  EXPECT_EQ(averaging.others.resumed(), 1);
  averaging.expect_to_end_well();
  EXPECT_EQ(averaging.cluster.worker(2).rounds_taken(), from_one(4));
}

TEST(DriverRounds, APassThatIsWantedWhenTheCallIsOverComesWithTheNextCall) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.others.train_again_at_the_end();
  averaging.train(2);
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}));
  averaging.cluster.run_again();
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}, Entered{2, 0}));
  EXPECT_EQ(averaging.cluster.worker(1).rounds_taken(), from_one(2));
}

TEST(DriverRounds, APassThatIsWantedComesBeforeTheNextCallTrains) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.others.train_again_at_the_end();
  averaging.train(2);
  averaging.expect_to_end_well();
  averaging.cluster.run_again(/*trains=*/true);
  averaging.train(1);
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}, Entered{2, 0}, Entered{3, 10}));
}

TEST(DriverRounds, WhatIsValidatedAfterTheLastRoundIsWhatTheCallEndsWith) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.others.keep_training(true);
  averaging.train(2);
  Driver& root = averaging.cluster.driver(0);
  auto finished = std::async(std::launch::async, [&] { return root.finish_rounds(soon()); });
  averaging.others.wait_for_finish();
  EXPECT_THAT(averaging.others.entered(), IsEmpty());
  averaging.others.train_again_at_the_end();
  averaging.others.keep_training(false);
  ASSERT_TRUE(finished.get().ok());
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}));
  EXPECT_EQ(averaging.cluster.worker(2).rounds_taken(), from_one(1));
  ASSERT_TRUE(averaging.cluster.offer({.kind = wire::PassKind::kValidate}).ok());
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20})) << "the weights changed after the validation";
  averaging.cluster.run_again();
  averaging.expect_to_end_well();
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}, Entered{2, 0}));
}

TEST(DriverRounds, TheLastRoundMayBeAskedForWhileBatchesWaitToBegin) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.cluster.worker(0).hold();
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(averaging.cluster.offer({.batch = i, .samples = 10}).ok());
  EXPECT_EQ(averaging.cluster.driver(0).finish_rounds(TimePoint()).code(), Code::kDeadline);
  averaging.cluster.worker(0).go_on();
  averaging.others.wait_for_finish();
  ASSERT_TRUE(averaging.cluster.driver(0).finish_rounds(soon()).ok());
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}));
  averaging.expect_to_end_well();
}

TEST(DriverRounds, ACallMayTrainOnAfterItsLastRound) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  for (std::uint64_t round = 1; round <= 2; ++round) {
    averaging.train(2);
    ASSERT_TRUE(averaging.cluster.driver(0).finish_rounds(soon()).ok());
    EXPECT_EQ(averaging.others.entered().size(), round);
  }
  averaging.expect_to_end_well();
  EXPECT_EQ(averaging.others.entered().size(), 2);
}

TEST(DriverRounds, AnAveragingPassThatIsAskedForComesAfterWhatWasBegun) {
  AveragingCluster averaging(100, stage::AverageMode::kOverlap);
  averaging.train(2);
  averaging.cluster.driver(0).average();
  ASSERT_TRUE(averaging.cluster.drain().ok());
  EXPECT_THAT(averaging.others.entered(), ElementsAre(Entered{1, 20}));
  averaging.train(1);
  EXPECT_THAT(averaging.cluster.worker(2).forwards(), ElementsAre(0, 1, 3));
  averaging.expect_to_end_well();
}

TEST(DriverRounds, WithoutOtherClustersNothingIsAveraged) {
  StubCluster cluster(kStages);
  cluster.driver(0).average();
  ASSERT_TRUE(cluster.offer({}).ok());
  ASSERT_TRUE(cluster.driver(0).finish_rounds(soon()).ok());
  for (const Status& ended : cluster.finish()) EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_THAT(cluster.worker(1).rounds_given(), IsEmpty());
}

}  // namespace
}  // namespace ravnest::cluster
