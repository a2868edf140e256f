#include "ravnest/train/rank/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace ravnest::train {
namespace {

using ::testing::HasSubstr;

strategy::Place fourth_of_four() { return {.rank = 3, .world = 4, .local_rank = 3, .local_world = 4}; }

TEST(RankDevice, EachRankOfAMachineHasItsOwnGpu) {
  EXPECT_EQ(rank_device({.wanted = c10::kCUDA, .gpus = 8}, fourth_of_four()).value().str(), "cuda:3");
  EXPECT_EQ(rank_device({.wanted = c10::kCPU}, fourth_of_four()).value().str(), "cpu");
  EXPECT_EQ(rank_device({.wanted = c10::Device("cuda:1"), .gpus = 2}, {.rank = 0}).value().str(), "cuda:1");
}

TEST(RankDevice, ARankThatIsShownOneGpuHasThatOne) {
  EXPECT_EQ(rank_device({.wanted = c10::kCUDA, .gpus = 1, .are_chosen = true}, fourth_of_four()).value().str(),
            "cuda:0");
}

TEST(RankDevice, AGpuThatTheLauncherHasGivenIsTheRanks) {
  strategy::Place bound = fourth_of_four();
  bound.has_own_gpu = true;
  EXPECT_EQ(rank_device({.wanted = c10::kCUDA, .gpus = 1}, bound).value().str(), "cuda");
  EXPECT_EQ(rank_device({.wanted = c10::Device("cuda:0"), .gpus = 1}, bound).value().str(), "cuda:0");
}

TEST(RankDevice, WhereNobodySaysWhichRankOfItsMachineThisIsItHasToChoose) {
  const strategy::Place place{.rank = 2, .world = 4, .local_rank = std::nullopt, .local_world = 1};
  EXPECT_THAT(rank_device({.wanted = c10::kCUDA, .gpus = 4}, place).status().message(),
              HasSubstr("which of the 4 GPUs here is rank 2's? RANK does not say it: set LOCAL_RANK"));
  EXPECT_EQ(rank_device({.wanted = c10::Device("cuda:1"), .gpus = 4}, place).value().str(), "cuda:1");
  EXPECT_EQ(rank_device({.wanted = c10::kCUDA, .gpus = 1}, place).value().str(), "cuda");
}

TEST(RankDevice, MoreRanksThanGpusAreToldWhatToDo) {
  EXPECT_EQ(rank_device({.wanted = c10::kCUDA, .gpus = 2}, fourth_of_four()).status(),
            invalid("there are 4 ranks on this machine, and torch finds 2 GPUs: start no more ranks than GPUs "
                    "(--devices 2), or let them share GPUs by the ring (backend = \"ring\"), or compute on the CPU "
                    "(device = \"cpu\")"));
  EXPECT_FALSE(rank_device({.wanted = c10::kCUDA, .gpus = 1}, fourth_of_four()).ok());
  EXPECT_FALSE(rank_device({.wanted = c10::Device("cuda:1"), .gpus = 8}, fourth_of_four()).ok());
}

TEST(RankDevice, OverTheRingRanksMayShareGpus) {
  EXPECT_EQ(rank_device({c10::kCUDA, Backend::kRing, 2, false}, fourth_of_four()).value().str(), "cuda:1");
  EXPECT_EQ(rank_device({c10::Device("cuda:0"), Backend::kRing, 2, false}, fourth_of_four()).value().str(), "cuda:0");
}

TEST(RankDevice, GpusAreKnownByAnIdentityAndTheCpuHasNone) {
  EXPECT_EQ(gpu_identity(c10::kCPU), "");
  EXPECT_NE(gpu_identity(c10::Device("cuda:0")), gpu_identity(c10::Device("cuda:1")));
  EXPECT_EQ(gpu_identity(c10::Device("cuda:0")), gpu_identity(c10::kCUDA));
}

}  // namespace
}  // namespace ravnest::train
