#include "ravnest/train/rank/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace ravnest::train {
namespace {

using ::testing::HasSubstr;

const c10::Device kGpu(c10::kCUDA);
const c10::Device kSecondGpu(c10::kCUDA, 1);
constexpr int kGpus = 4;

strategy::Place place(std::optional<int> local_rank, int local_world) {
  return {.rank = 2, .world = 4, .local_rank = local_rank, .local_world = local_world};
}

TEST(RankDevice, RanksOfAMachineHaveTheGpuOfTheirNumber) {
  EXPECT_EQ(*rank_device(kGpu, place(1, 2), kGpus), kSecondGpu);
  EXPECT_EQ(*rank_device(c10::kCPU, place(1, 2), kGpus), c10::Device(c10::kCPU));
}

TEST(RankDevice, TheOnlyRankOfAMachineChooses) {
  EXPECT_EQ(*rank_device(kGpu, place(0, 1), kGpus), kGpu);
  EXPECT_EQ(*rank_device(kSecondGpu, place(0, 1), kGpus), kSecondGpu);
}

TEST(RankDevice, OneGpuForSeveralRanksIsRefused) {
  EXPECT_EQ(rank_device(kSecondGpu, place(0, 2), kGpus).status().message(),
            "the device cuda:1 is one GPU, and 2 ranks on this machine need one each: \"cuda\" gives each its own");
}

TEST(RankDevice, AGpuThatTheLauncherHasGivenIsTheRanks) {
  strategy::Place bound = place(1, 2);
  bound.has_own_gpu = true;
  EXPECT_EQ(*rank_device(kGpu, bound, 1), kGpu);
  EXPECT_EQ(*rank_device(c10::Device(c10::kCUDA, 0), bound, 1), c10::Device(c10::kCUDA, 0));
}

TEST(RankDevice, WhereNobodySaysWhichRankOfItsMachineThisIsItHasToChoose) {
  EXPECT_THAT(rank_device(kGpu, place(std::nullopt, 1), kGpus).status().message(),
              HasSubstr("which of the 4 GPUs here is rank 2's? RANK does not say it: set LOCAL_RANK"));
  EXPECT_EQ(*rank_device(kSecondGpu, place(std::nullopt, 1), kGpus), kSecondGpu);
  EXPECT_EQ(*rank_device(kGpu, place(std::nullopt, 1), 1), kGpu);
}

}  // namespace
}  // namespace ravnest::train
