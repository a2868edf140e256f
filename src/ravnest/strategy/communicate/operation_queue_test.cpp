#include "ravnest/strategy/communicate/operation_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

namespace ravnest::strategy {
namespace {

const Status kReason = unavailable("rank_2 was lost");

void nothing(const Status&) {}

TEST(OperationQueue, OperationsAreCarriedOutInTheOrderOfIssue) {
  OperationQueue queue(nothing);
  std::vector<int> order;
  std::vector<std::shared_ptr<Pending>> begun;
  for (int i = 0; i < 100; ++i) {
    begun.push_back(queue.add([&order, i] {
      order.push_back(i);
      return Status();
    }));
  }
  EXPECT_TRUE(begun[99]->wait().ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(begun[static_cast<std::size_t>(i)]->wait().ok());
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

TEST(OperationQueue, AFailureEndsAllThatComesAfterItWithItsReason) {
  OperationQueue queue(nothing);
  std::atomic<bool> carried_out = false;
  const auto before = queue.add([] { return Status(); });
  const auto failing = queue.add([] { return kReason; });
  const auto after = queue.add([&] {
    carried_out = true;
    return Status();
  });
  EXPECT_EQ(after->wait(), kReason);
  EXPECT_EQ(failing->wait(), kReason);
  EXPECT_TRUE(before->wait().ok());
  EXPECT_EQ(queue.add([] { return Status(); })->wait(), kReason);
  EXPECT_FALSE(carried_out);
}

TEST(OperationQueue, WhatAnOperationThrowsIsAFailure) {
  OperationQueue queue(nothing);
  const auto failing = queue.add([]() -> Status { throw std::runtime_error("no memory on the GPU"); });
  EXPECT_EQ(failing->wait(), internal("no memory on the GPU"));
}

TEST(OperationQueue, AnAbortEndsTheOperationUnderWayAndAllWhoWait) {
  std::promise<Status> interrupted;
  std::promise<void> begun;
  bool told = false;
  OperationQueue queue([&](const Status& why) {
    if (!std::exchange(told, true)) interrupted.set_value(why);
  });
  const auto under_way = queue.add([&] {
    begun.set_value();
    return interrupted.get_future().get();
  });
  const auto waiting = queue.add([] { return Status(); });
  std::thread waiter([&] { EXPECT_EQ(waiting->wait(), kReason); });
  begun.get_future().wait();
  queue.abort(kReason);
  queue.abort(cancelled("later"));
  EXPECT_EQ(under_way->wait(), kReason);
  waiter.join();
}

TEST(OperationQueue, AnAbortDoesNotWaitForAnOperationThatTakesItsTime) {
  std::promise<void> may_end;
  OperationQueue queue(nothing);
  const auto slow = queue.add([&] {
    may_end.get_future().wait();
    return Status();
  });
  queue.abort(kReason);
  EXPECT_EQ(slow->wait(), kReason);
  may_end.set_value();
}

TEST(OperationQueue, WhoeverWaitsForAQueueThatIsGoneIsToldSo) {
  std::shared_ptr<Pending> complete;
  std::shared_ptr<Pending> dropped;
  {
    OperationQueue queue(nothing);
    complete = queue.add([] { return Status(); });
    EXPECT_TRUE(complete->wait().ok());
    queue.abort(kReason);
    dropped = queue.add([] { return Status(); });
  }
  EXPECT_TRUE(complete->wait().ok());
  EXPECT_EQ(dropped->wait(), kReason);
  {
    std::promise<void> interrupted;
    OperationQueue queue([&](const Status&) { interrupted.set_value(); });
    dropped = queue.add([&] {
      interrupted.get_future().wait();
      return Status();
    });
  }
  EXPECT_EQ(dropped->wait().code(), Code::kCancelled);
}

TEST(OperationQueue, NothingIsHeldOfAnOperationThatWasWaitedFor) {
  OperationQueue queue(nothing);
  const auto held = std::make_shared<int>(0);
  EXPECT_TRUE(queue.add([held] { return Status(); })->wait().ok());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace ravnest::strategy
