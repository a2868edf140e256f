#include "ravnest/strategy/communicate/nccl_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimePoint in(Duration time) { return std::chrono::steady_clock::now() + time; }

// Waits for what another thread does.
bool eventually(const std::function<bool()>& reached) {
  const TimePoint last = in(seconds(20));
  while (!reached()) {
    if (std::chrono::steady_clock::now() > last) return false;
    std::this_thread::yield();
  }
  return true;
}

class NcclThreads : public ::testing::Test {
 protected:
  NcclThreads() {
    stand_in::reset();
    library_.get_unique_id(&id_);
  }
  ~NcclThreads() override {
    threads_.clear();
    EXPECT_EQ(stand_in::open_communicators(), 0);
  }

  NcclThread& add(NcclThreadOptions options) {
    return *threads_.emplace_back(std::make_unique<NcclThread>(library_, std::move(options)));
  }
  NcclThread& connected(int world = 1) {
    std::vector<std::future<Status>> results;
    for (int rank = 0; rank < world; ++rank) {
      NcclThread& thread = add({.rank = rank, .world = world, .time_for_reason = time_for_reason_});
      results.push_back(std::async(std::launch::async, [&] { return thread.connect(id_, in(seconds(20))); }));
    }
    for (auto& result : results) EXPECT_EQ(result.get(), Status());
    return *threads_.front();
  }
  NcclTask all_reduce(std::vector<float>& values) const {
    return {.what = "all-reduce", .call = [this, &values](nccl::Comm* comm) {
              return library_.all_reduce(values.data(), values.data(), values.size(), nccl::kFloat32, nccl::kSum, comm,
                                         nullptr);
            }};
  }

  const NcclLibrary library_ = load_nccl(stand_in::path()).value();
  nccl::UniqueId id_;
  Duration time_for_reason_ = Duration::zero();
  std::vector<std::unique_ptr<NcclThread>> threads_;
};

TEST_F(NcclThreads, CallsAreMadeInTheOrderOfIssueAndByOneThread) {
  std::thread::id prepared;
  NcclThread& thread = add({.prepare = [&] { prepared = std::this_thread::get_id(); }});
  ASSERT_EQ(thread.connect(id_, in(seconds(20))), Status());
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    thread.issue({.what = "task", .call = [&, i](nccl::Comm*) {
                    EXPECT_EQ(std::this_thread::get_id(), prepared);
                    order.push_back(i);
                    return nccl::kSuccess;
                  }});
  }
  EXPECT_EQ(thread.wait_until_taken(51), Status());
  EXPECT_EQ(order.size(), 50);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(NcclThreads, OperationOfAllRanksIsTakenWhenAllHaveCome) {
  connected(3);
  std::vector<std::vector<float>> values = {{1, 2}, {10, 20}, {100, 200}};
  std::vector<std::uint64_t> tasks;
  for (int rank = 0; rank < 3; ++rank) tasks.push_back(threads_[rank]->issue(all_reduce(values[rank])));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(threads_[rank]->wait_until_taken(tasks[rank]), Status());
    EXPECT_THAT(values[rank], ElementsAre(111, 222));
  }
}

TEST_F(NcclThreads, GoodEndFinalizesAndDestroys) {
  connected().close();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "finalize", "destroy"));
}

TEST_F(NcclThreads, RankThatDoesNotComeEndsTheStartAtTheDeadline) {
  NcclThread& thread = add({.world = 2});
  const Status status = thread.connect(id_, in(milliseconds(20)));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(),
              testing::StartsWith("NCCL's start did not end in time on rank 0 of 2: the ranks do not reach each other. "
                                  "A firewall may close the ports that it takes"));
  thread.close();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 2", "abort"));
}

TEST_F(NcclThreads, AbortEndsTheStart) {
  NcclThread& thread = add({.world = 2});
  auto result = std::async(std::launch::async, [&] { return thread.connect(id_, in(seconds(60))); });
  ASSERT_TRUE(eventually([] { return stand_in::questions() > 0; }));
  thread.abort(unavailable("rank 1 was lost"));
  EXPECT_EQ(result.get(), unavailable("rank 1 was lost"));
  EXPECT_TRUE(eventually([] { return stand_in::open_communicators() == 0; }));
}

TEST_F(NcclThreads, ErrorFoundWhileAnOperationIsUnderWayEndsItByAnAbort) {
  NcclThread& thread = connected();
  stand_in::hang();
  std::vector<float> values = {1};
  const std::uint64_t task = thread.issue(all_reduce(values));
  ASSERT_TRUE(eventually([] { return stand_in::calls(0).size() == 2; }));
  stand_in::break_off(0, nccl::kRemoteError);
  const Status status = thread.wait_until_taken(task);
  EXPECT_EQ(status, unavailable("NCCL's all-reduce failed on rank 0 of 1: remote process exited or there was a network "
                                "error (the stand-in; says so)"));
  thread.close();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "all_reduce float32 1", "abort"));
}

TEST_F(NcclThreads, ErrorIsFoundWithoutAnyOperationAndEndsAllThatComes) {
  NcclThread& thread = connected();
  stand_in::break_off(0, nccl::kSystemError);
  ASSERT_TRUE(eventually([&] { return !thread.outcome_of(2).ok(); }));
  std::vector<float> values = {1};
  const Status status = thread.wait_until_taken(thread.issue(all_reduce(values)));
  EXPECT_THAT(status.message(), HasSubstr("NCCL's connection failed on rank 0 of 1: unhandled system error"));
  EXPECT_EQ(thread.outcome_of(2), status);
}

TEST_F(NcclThreads, OthersHearOfARankThatWasAborted) {
  connected(2);
  std::vector<float> values = {1};
  const std::uint64_t task = threads_[1]->issue(all_reduce(values));
  threads_[0]->abort(cancelled("somebody asked"));
  EXPECT_THAT(threads_[1]->wait_until_taken(task).message(), HasSubstr("remote process exited"));
}

TEST_F(NcclThreads, WhoKnowsWhyARankIsGoneHasTimeToSaySo) {
  time_for_reason_ = seconds(60);
  connected(2);
  std::vector<float> values = {1};
  const std::uint64_t task = threads_[1]->issue(all_reduce(values));
  threads_[0]->abort(cancelled("somebody asked"));
  ASSERT_TRUE(eventually([] { return stand_in::errors_told() > 0; }));
  threads_[1]->abort(unavailable("rank 0 (10.0.0.2) was lost"));
  EXPECT_EQ(threads_[1]->wait_until_taken(task), unavailable("rank 0 (10.0.0.2) was lost"));
}

TEST_F(NcclThreads, NcclsOwnReasonIsTakenWhenThatTimeIsOver) {
  time_for_reason_ = milliseconds(100);
  connected(2);
  std::vector<float> values = {1};
  const TimePoint begin = std::chrono::steady_clock::now();
  const std::uint64_t task = threads_[1]->issue(all_reduce(values));
  threads_[0]->abort(cancelled("somebody asked"));
  EXPECT_THAT(threads_[1]->wait_until_taken(task).message(), HasSubstr("remote process exited"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(100));
}

TEST_F(NcclThreads, OperationThatNcclRefusesBreaksTheCommunicator) {
  NcclThread& thread = connected();
  stand_in::refuse(0, nccl::kInvalidUsage);
  std::vector<float> values = {1};
  EXPECT_EQ(thread.wait_until_taken(thread.issue(all_reduce(values))).code(), Code::kInvalid);
  EXPECT_EQ(thread.wait_until_taken(thread.issue(all_reduce(values))).code(), Code::kInvalid);
  thread.close();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "all_reduce float32 1", "abort"));
}

TEST_F(NcclThreads, WhatAnOperationWorksOnIsKeptUntilItIsAborted) {
  for (const bool closes : {false, true}) {
    stand_in::reset();
    NcclThread& thread = add({});
    ASSERT_EQ(thread.connect(id_, in(seconds(20))), Status());
    stand_in::hang();
    std::vector<std::string> before_it_was_freed;
    std::shared_ptr<std::vector<float>> values(new std::vector<float>{1}, [&](std::vector<float>* own) {
      before_it_was_freed = stand_in::calls(0);
      delete own;
    });
    thread.issue(
        {.what = "all-reduce", .call = [this, values](nccl::Comm* comm) { return all_reduce(*values).call(comm); }});
    values.reset();
    ASSERT_TRUE(eventually([] { return stand_in::calls(0).size() == 2; }));
    if (!closes) thread.abort(unavailable("rank 3 was lost"));
    thread.close();
    EXPECT_THAT(before_it_was_freed, ElementsAre("init 1", "all_reduce float32 1", "abort"));
    threads_.clear();
    library_.get_unique_id(&id_);
  }
}

TEST_F(NcclThreads, FirstReasonHolds) {
  NcclThread& thread = connected();
  stand_in::hang();
  std::vector<float> values = {1};
  const std::uint64_t task = thread.issue(all_reduce(values));
  thread.abort(unavailable("rank 3 was lost"));
  thread.abort(cancelled("too late"));
  EXPECT_EQ(thread.wait_until_taken(task), unavailable("rank 3 was lost"));
}

TEST_F(NcclThreads, WhatWasCompleteBeforeAFailureStaysSo) {
  NcclThread& thread = connected();
  bool second_is_complete = false;
  std::vector<float> values = {1};
  const std::uint64_t first = thread.issue(all_reduce(values));
  NcclTask task = all_reduce(values);
  task.complete = [&] { return second_is_complete; };
  const std::uint64_t second = thread.issue(task);
  ASSERT_EQ(thread.wait_until_taken(second), Status());
  EXPECT_EQ(thread.outcome_of(second), Status());
  thread.abort(unavailable("rank 3 was lost"));
  EXPECT_EQ(thread.outcome_of(first), Status());
  EXPECT_EQ(thread.outcome_of(second), unavailable("rank 3 was lost"));
}

TEST_F(NcclThreads, EndWithAnOperationUnderWayAbortsIt) {
  NcclThread& thread = connected();
  stand_in::hang();
  std::vector<float> values = {1};
  const std::uint64_t task = thread.issue(all_reduce(values));
  ASSERT_TRUE(eventually([] { return stand_in::calls(0).size() == 2; }));
  thread.close();
  EXPECT_EQ(thread.wait_until_taken(task).code(), Code::kCancelled);
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "all_reduce float32 1", "abort"));
}

TEST_F(NcclThreads, FinalizationThatDoesNotEndIsAborted) {
  NcclThread& thread = connected();
  stand_in::hang();
  thread.close();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "finalize", "abort"));
}

TEST_F(NcclThreads, NcclIsNotAskedInAHotLoop) {
  NcclThread& thread = connected();
  stand_in::hang();
  std::vector<float> values = {1};
  const TimePoint begin = std::chrono::steady_clock::now();
  const std::size_t before = stand_in::questions();
  thread.issue(all_reduce(values));
  ASSERT_TRUE(eventually([&] { return stand_in::questions() >= before + 40; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(100));
}

TEST_F(NcclThreads, TaskThatThrowsBreaksTheCommunicatorWithTheFirstLineOfWhatItSays) {
  NcclThread& thread = connected();
  const std::uint64_t task = thread.issue(
      {.what = "task", .call = [](nccl::Comm*) -> nccl::Outcome { throw std::runtime_error("no memory\nstack"); }});
  EXPECT_EQ(thread.wait_until_taken(task), unavailable("NCCL failed on rank 0 of 1: no memory"));
}

TEST_F(NcclThreads, PreparationThatThrowsIsTheOutcomeOfTheStart) {
  NcclThread& thread = add({.prepare = [] { throw std::runtime_error("there is no such GPU"); }});
  EXPECT_EQ(thread.connect(id_, in(seconds(20))), unavailable("NCCL failed on rank 0 of 1: there is no such GPU"));
}

}  // namespace
}  // namespace ravnest::strategy
