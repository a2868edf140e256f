// Ranks whose tensors go by NCCL, from the choice to the end: against a stand-in library, over the memory of the host.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"
#include "ravnest/strategy/launch/testing/test_run.h"
#include "ravnest/train/rank/testing/rank_run.h"

namespace ravnest::train {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace stand_in = strategy::stand_in;
namespace nccl = strategy::nccl;

class NcclRank : public testing::RankRunTest {
 protected:
  NcclRank() { stand_in::reset(); }

  RankOptions with_nccl(int rank, int world) const {
    RankOptions options = options_of(rank, world);
    options.strategy.backend = Backend::kNccl;
    options.nccl_library = stand_in::path();
    return options;
  }

  // What both ranks of a run end with.
  static std::string sentence(const std::function<Status(int rank)>& play) {
    const std::vector<Status> outcomes = at_once(play, 2);
    EXPECT_FALSE(outcomes[0].ok());
    EXPECT_THAT(outcomes, Each(outcomes[0]));
    EXPECT_EQ(stand_in::open_communicators(), 0U);
    return outcomes[0].message();
  }
};

TEST_F(NcclRank, TrainsWhatTheRingDoesToTheBitAndEndsInGoodOrder) {
  std::vector<std::vector<at::Tensor>> by_ring(2);
  std::vector<std::vector<at::Tensor>> by_nccl(2);
  const auto outcomes = at_once(
      [&](int rank) { return train(rank, 2, config("epochs = 2"), &by_ring[static_cast<std::size_t>(rank)]); }, 2);
  EXPECT_THAT(outcomes, Each(Status()));
  strategy::Overheard said;
  const auto again = at_once(
      [&](int rank) {
        RankOptions options = with_nccl(rank, 2);
        if (rank == 0) options.log = said.logger();
        return train(options, config("epochs = 2"), &by_nccl[static_cast<std::size_t>(rank)]);
      },
      2);
  EXPECT_THAT(again, Each(Status()));
  EXPECT_THAT(said.text(), HasSubstr("2 ranks exchange their gradients by NCCL 2.28.9\n"));
  for (std::size_t rank : {0, 1}) {
    for (std::size_t i = 0; i < by_ring[rank].size(); ++i) EXPECT_TRUE(at::equal(by_ring[rank][i], by_nccl[rank][i]));
    const std::vector<std::string> calls = stand_in::calls(static_cast<int>(rank));
    EXPECT_EQ(calls.front(), "init 2");
    EXPECT_THAT(calls, Contains(StartsWith("all_reduce float32 ")));
    EXPECT_EQ(calls.back(), "destroy");
  }
  EXPECT_EQ(stand_in::open_communicators(), 0U);
}

TEST_F(NcclRank, WhatEndsTheRunOnOneRankAbortsNcclOnAll) {
  EXPECT_EQ(sentence([&](int rank) -> Status {
              auto own = Rank::open(with_nccl(rank, 2), patient());
              if (!own.ok()) return own.status();
              if (rank == 1) return (*own)->stop({"failed: its cat sat on the keyboard"});
              auto trainer = RankTrainer::prepare(**own, config("epochs = 1000"), {});
              return trainer.ok() ? trainer->train(patient()).status() : trainer.status();
            }),
            "rank 1 (127.0.0.1) failed: its cat sat on the keyboard");
  for (const int rank : {0, 1}) EXPECT_EQ(stand_in::calls(rank).back(), "abort");
}

TEST_F(NcclRank, WhatNcclSaysOnOneRankIsTheSentenceOfAll) {
  const auto outcome = sentence([&](int rank) -> Status {
    auto own = Rank::open(with_nccl(rank, 2), patient());
    if (!own.ok()) return own.status();
    if (rank == 1) stand_in::refuse(1, nccl::kSystemError);
    auto trainer = RankTrainer::prepare(**own, config("epochs = 1000"), {});
    return trainer.ok() ? trainer->train(patient()).status() : trainer.status();
  });
  EXPECT_THAT(outcome, AllOf(HasSubstr("NCCL's "), HasSubstr(" failed on rank "), HasSubstr(" of 2: ")));
}

TEST_F(NcclRank, NcclThatDoesNotConnectIsSaidAndEndsAllRanksWithWhatToLookAt) {
  stand_in::hang();
  strategy::Overheard said;
  const auto outcome = sentence([&](int rank) {
    RankOptions options = with_nccl(rank, 2);
    options.nccl_time = std::chrono::seconds(4);
    if (rank == 0) options.log = said.logger();
    return Rank::open(options, patient()).status();
  });
  EXPECT_THAT(said.text(), HasSubstr("waiting for NCCL to connect the 2 ranks\n"));
  EXPECT_THAT(outcome, HasSubstr("NCCL's start did not end in time on rank "));
  EXPECT_THAT(outcome, HasSubstr("NCCL_SOCKET_IFNAME"));
}

TEST_F(NcclRank, ARankThatIsInterruptedWhileNcclConnectsDoesNotWaitForIt) {
  stand_in::hang();
  const std::vector<Status> outcomes = at_once(
      [&](int rank) {
        const Poll interrupts = [rank, polls = 0]() mutable -> Status {
          const bool connects = !stand_in::calls(rank).empty();
          return rank == 1 && connects && ++polls > 1 ? cancelled("rank_1 was interrupted") : Status();
        };
        return Rank::open(with_nccl(rank, 2), interrupts).status();
      },
      2);
  EXPECT_EQ(outcomes[1], cancelled("rank_1 was interrupted"));
  EXPECT_EQ(outcomes[0].message(), "rank 1 (127.0.0.1) was interrupted");
  EXPECT_EQ(stand_in::open_communicators(), 0U);
}

}  // namespace
}  // namespace ravnest::train
