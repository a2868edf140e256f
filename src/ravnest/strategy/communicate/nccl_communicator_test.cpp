#include "ravnest/strategy/communicate/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/strategy/communicate/testing/communicator_conformance.h"
#include "ravnest/strategy/communicate/testing/nccl_ranks.h"
#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"

namespace ravnest::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Backend nccl_stand_in() {
  return {.name = "StandIn",
          .make = [](int world) { return std::make_unique<NcclRanks>(world); },
          .compresses = false,
          .names_who_is_lost = false};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance, in_worlds({nccl_stand_in()}, {1, 2, 3, 4}), name_of_world);

TEST(Nccl, OperationsBecomeItsCallsInTheirOrder) {
  NcclRanks ranks(2);
  each_rank(ranks, 2, [](Communicator& communicator, int /*rank*/) {
    std::vector<double> sums = {1, 2, 3};
    const std::vector<std::shared_ptr<Pending>> begun = {
        communicator.all_reduce(at::ones({6}), nullptr),     communicator.reduce_scatter(at::ones({6}), nullptr),
        communicator.all_gather(at::ones({6}, at::kHalf)),   communicator.broadcast(at::ones({6}, at::kBFloat16), 1),
        communicator.all_reduce(at::ones({6}, at::kDouble)), communicator.sum(std::span(sums))};
    for (const auto& each : begun) EXPECT_EQ(each->wait(), Status());
  });
  ranks.close(0);
  ranks.close(1);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(stand_in::calls(rank),
                ElementsAre("init 2", "all_reduce float32 6", "reduce_scatter float32 3", "all_gather int8 6",
                            "broadcast int8 12", "all_reduce float64 6", "all_gather int8 24", "finalize", "destroy"));
  }
}

TEST(Nccl, NumbersOfSixteenBitsAreAddedAsWhatTheyAre) {
  NcclRanks ranks(1);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    (void)ranks.of(0).all_reduce(at::ones({3}, type), nullptr)->wait();
  }
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 1", "all_reduce float16 3", "all_reduce bfloat16 3"));
}

TEST(Nccl, RankThatExchangesSomethingElseIsFound) {
  NcclRanks ranks(2);
  each_rank(ranks, 2, [](Communicator& communicator, int rank) {
    const Status status = communicator.all_reduce(at::ones({4 + rank}), nullptr)->wait();
    EXPECT_THAT(status.message(), HasSubstr("NCCL's all-reduce failed on rank"));
  });
}

TEST(Nccl, WaitMayComeWhenTheCommunicatorIsGone) {
  NcclRanks ranks(1);
  const at::Tensor values = at::ones({4});
  const auto first = ranks.of(0).all_reduce(values, nullptr);
  EXPECT_EQ(first->wait(), Status());
  stand_in::hang();
  const auto second = ranks.of(0).all_reduce(values, nullptr);
  ranks.close(0);
  EXPECT_EQ(first->wait(), Status());
  EXPECT_EQ(second->wait().code(), Code::kCancelled);
}

TEST(Nccl, IdThatDoesNotArriveIsTheOutcomeOfTheStart) {
  stand_in::reset();
  auto communicator = NcclCommunicator::open({.world = 2,
                                              .device = at::kCPU,
                                              .share_from_first = [](auto) { return unavailable("rank 1 was lost"); },
                                              .library = stand_in::path()})
                          .value();
  EXPECT_EQ(communicator->connect(std::chrono::steady_clock::now()),
            unavailable("NCCL's id did not get from rank 0 to all: rank 1 was lost"));
  EXPECT_THAT(stand_in::calls(0), ElementsAre());
}

TEST(Nccl, WhoeverWaitsForTheOthersMayGiveUp) {
  stand_in::reset();
  auto communicator = NcclCommunicator::open({.world = 2,
                                              .device = at::kCPU,
                                              .share_from_first = [](auto) { return Status(); },
                                              .library = stand_in::path()})
                          .value();
  int polls = 0;
  const auto wait = [&](Pending& pending) -> Status {
    // Not before it has begun to: only then there is something to give up.
    while (stand_in::calls(0).empty() || ++polls < 3) {
      Status status = pending.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
      if (status.code() != Code::kDeadline) return status;
    }
    return cancelled("rank_0 was interrupted");
  };
  EXPECT_EQ(communicator->connect(TimePoint::max(), wait), cancelled("rank_0 was interrupted"));
  EXPECT_EQ(polls, 3);
  communicator.reset();
  EXPECT_THAT(stand_in::calls(0), ElementsAre("init 2", "abort"));
}

TEST(Nccl, TensorsOfTheHostAreNotForTheRealOne) {
  EXPECT_EQ(NcclCommunicator::open({.device = at::kCPU}).status(),
            unsupported("NCCL connects GPUs, and rank 0 computes on cpu"));
}

}  // namespace
}  // namespace ravnest::strategy
