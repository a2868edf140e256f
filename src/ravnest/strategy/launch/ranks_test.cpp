#include "ravnest/strategy/launch/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/strategy/launch/testing/test_run.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::strategy {
namespace {

using testing::AnyOf;
using testing::Each;
using transport::in_seconds;
using transport::patiently;

constexpr double kSoon_s = 10;

// All ranks of a run, met.
class RanksTest : public testing::Test {
 protected:
  void meet(int world) {
    TestRun run(world);
    std::vector<int> numbers;
    for (int rank = 0; rank < world; ++rank) numbers.push_back(run.start(rank));
    for (const int number : numbers) {
      auto& met = run.outcome(number);
      ASSERT_TRUE(met.ok()) << met.status();
      RanksOptions options;
      options.log = Logger("test", Level::kOff);
      ranks_.push_back(std::make_unique<Ranks>(std::move(*met), options));
    }
    failed_.resize(static_cast<std::size_t>(world));
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i]->on_failure([told = failed_[i]](const Status& why) { told->set_value(why); });
    }
  }

  Ranks& rank(int number) { return *ranks_[static_cast<std::size_t>(number)]; }
  void lose(int number) { ranks_[static_cast<std::size_t>(number)].reset(); }
  // What on_failure was told; it would throw on a second call.
  Status told(int number) {
    auto future = failed_[static_cast<std::size_t>(number)]->get_future();
    if (future.wait_until(in_seconds(kSoon_s)) == std::future_status::ready) return future.get();
    ADD_FAILURE() << "rank " << number << " has not failed";
    return {};
  }

  struct Told : std::shared_ptr<std::promise<Status>> {
    Told() : std::shared_ptr<std::promise<Status>>(std::make_shared<std::promise<Status>>()) {}
  };
  std::vector<Told> failed_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
};

TEST_F(RanksTest, GoOnWhileNothingHappens) {
  meet(2);
  EXPECT_TRUE(rank(0).status().ok());
  EXPECT_EQ(rank(0).shown(1), "rank 1 (127.0.0.1)");
  EXPECT_TRUE(rank(1).leave(patiently()).ok());
  EXPECT_TRUE(rank(0).status().ok());
  EXPECT_TRUE(rank(0).leave(patiently()).ok());
}

TEST_F(RanksTest, OneThatFailsEndsAllWithItsSentence) {
  meet(4);
  const Status expected = unavailable("rank 2 (127.0.0.1) has run out of memory");
  EXPECT_EQ(rank(2).fail("has run out of memory"), expected);
  for (int number = 0; number < 4; ++number) {
    EXPECT_EQ(told(number), expected) << number;
    EXPECT_EQ(rank(number).status(), expected) << number;
    EXPECT_EQ(rank(number).leave(patiently()), expected) << number;
  }
}

TEST_F(RanksTest, OneThatIsLostEndsAllWithTheStep) {
  meet(4);
  for (int number = 0; number < 4; ++number) rank(number).at_step(812);
  lose(3);
  const Status expected = unavailable("rank 3 (127.0.0.1) was lost at step 812");
  for (int number = 0; number < 3; ++number) EXPECT_EQ(told(number), expected) << number;
}

TEST_F(RanksTest, StepsThatDifferStillMakeOneSentence) {
  meet(4);
  for (int number = 0; number < 4; ++number) rank(number).at_step(811 + static_cast<std::uint64_t>(number % 2));
  lose(3);
  const Status first = told(0);
  EXPECT_THAT(first.message(),
              AnyOf("rank 3 (127.0.0.1) was lost at step 811", "rank 3 (127.0.0.1) was lost at step 812"));
  for (int number = 1; number < 3; ++number) EXPECT_EQ(told(number), first) << number;
}

TEST_F(RanksTest, OfSeveralReasonsOneHoldsEverywhere) {
  meet(4);
  std::vector<std::thread> threads;
  std::vector<Status> ends(4);
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back(
        [&, number] { ends[static_cast<std::size_t>(number)] = rank(number).fail(text("has had enough, ", number)); });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_THAT(ends, Each(ends.front()));
  EXPECT_FALSE(ends.front().ok());
}

TEST_F(RanksTest, WhatBreaksHereIsExplainedByWhatHappenedThere) {
  meet(3);
  std::promise<Status> explained;
  std::thread collective([&] { explained.set_value(rank(0).why(unavailable("the ring broke"))); });
  const Status failed = rank(2).fail("was interrupted");
  EXPECT_EQ(failed, unavailable("rank 2 (127.0.0.1) was interrupted"));
  EXPECT_EQ(explained.get_future().get(), failed);
  collective.join();
}

TEST_F(RanksTest, WhoeverAsksWhyMayBeInterruptedMeanwhile) {
  meet(2);
  const Status interrupted = cancelled("rank_0 was interrupted");
  EXPECT_EQ(rank(0).why(unavailable("the ring broke"), [&] { return interrupted; }), interrupted);
  EXPECT_EQ(rank(0).fail("was interrupted"), unavailable("rank 0 (127.0.0.1) was interrupted"));
  EXPECT_EQ(told(1), unavailable("rank 0 (127.0.0.1) was interrupted"));
}

TEST_F(RanksTest, AWholeSentenceIsThatOfAll) {
  meet(3);
  const Status expected = unavailable("epochs is 3 on rank_0 and 4 on rank_2");
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] { EXPECT_EQ(rank(number).end(expected.message()), expected); });
  }
  for (std::thread& each : threads) each.join();
}

TEST_F(RanksTest, WhatBreaksHereAloneEndsAll) {
  meet(2);
  const Status expected = unavailable("rank 0 (127.0.0.1) failed: the ring broke");
  EXPECT_EQ(rank(0).why(unavailable("the ring broke")), expected);
  EXPECT_EQ(told(1), expected);
}

TEST_F(RanksTest, ARankThatLeavesIsAFailureForThoseWhoNeedIt) {
  meet(3);
  rank(0).at_step(40);
  rank(1).at_step(40);
  EXPECT_TRUE(rank(2).leave(patiently()).ok());
  ASSERT_TRUE(rank(0).status().ok());
  const Status expected = unavailable("rank 2 (127.0.0.1) left at step 40, while others still needed it");
  EXPECT_EQ(rank(0).why(unavailable("the ring broke")), expected);
  EXPECT_EQ(told(1), expected);
}

TEST_F(RanksTest, OneWithABrokenConnectionIsBlamedForWhatBreaksHere) {
  meet(3);
  for (int number = 0; number < 3; ++number) rank(number).at_step(7);
  lose(2);
  EXPECT_EQ(rank(0).why(unavailable("NCCL: remote process exited")),
            unavailable("rank 2 (127.0.0.1) was lost at step 7"));
}

TEST_F(RanksTest, WhatCameBeforeTheEndOfTheMeetingCounts) {
  TestRun run(2);
  const int a = run.start(0);
  const int b = run.start(1);
  Met& met = *run.outcome(a);
  met.early.push_back({"rank_1", wire::Message(wire::Failed{1, false, "rank 1 (10.0.0.2) was interrupted"})});
  Ranks ranks(std::move(met));
  std::promise<Status> told;
  ranks.on_failure([&](const Status& why) { told.set_value(why); });
  EXPECT_EQ(told.get_future().get(), unavailable("rank 1 (10.0.0.2) was interrupted"));
  EXPECT_TRUE(run.outcome(b).ok());
}

TEST_F(RanksTest, OneRankAloneFailsAndLeaves) {
  meet(1);
  EXPECT_EQ(rank(0).fail("was interrupted"), unavailable("rank 0 (127.0.0.1) was interrupted"));
  EXPECT_EQ(told(0).message(), "rank 0 (127.0.0.1) was interrupted");
  EXPECT_FALSE(rank(0).leave(patiently()).ok());
}

}  // namespace
}  // namespace ravnest::strategy
