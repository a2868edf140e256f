#include "ravnest/train/rank/backend.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/collective/testing/group.h"
#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"
#include "ravnest/strategy/communicate/testing/ring_ranks.h"

namespace ravnest::train {
namespace {

// What all ranks have of a choice.
struct Choice {
  std::vector<Status> statuses;
  std::vector<std::string> reasons;
  std::vector<bool> by_nccl;
};

// `options_of(rank)` on each of two ranks.
Choice choose(const std::function<BackendOptions(int rank)>& options_of) {
  strategy::RingRanks ranks(std::make_unique<collective::InprocNodes>(2));
  Choice choice{std::vector<Status>(2), std::vector<std::string>(2), std::vector<bool>(2)};
  Mutex mutex;
  strategy::each_rank(ranks, 2, [&](strategy::Communicator& ring, int rank) {
    const auto chosen =
        choose_backend(options_of(rank), ring, [](strategy::Pending& pending) { return pending.wait(); });
    const MutexLock lock(mutex);
    const auto own = static_cast<std::size_t>(rank);
    choice.statuses[own] = chosen.status();
    if (!chosen.ok()) return;
    choice.reasons[own] = chosen->why;
    choice.by_nccl[own] = chosen->nccl != nullptr;
  });
  return choice;
}

BackendOptions with_gpu(const std::string& gpu, Backend asked = Backend::kAuto) {
  return {.asked = asked, .device = c10::Device("cuda:0"), .gpu = gpu, .nccl_library = strategy::stand_in::path()};
}

TEST(Backend, RanksThatHaveTheSameGpuTakeTheRingAndSaySo) {
  const Choice choice = choose([](int) { return with_gpu("00cea8c8"); });
  for (const std::string& reason : choice.reasons)
    EXPECT_EQ(reason, "the ring over TLS, since rank_0 and rank_1 have the same GPU");
}

TEST(Backend, ARankOnTheCpuIsTheReasonForTheRing) {
  const Choice choice = choose([](int rank) { return rank == 0 ? with_gpu("a") : BackendOptions{}; });
  for (const std::string& reason : choice.reasons)
    EXPECT_EQ(reason, "the ring over TLS, since rank_1 computes on the CPU");
}

TEST(Backend, NcclThatCanNotBeIsRefusedOnAllRanksAlike) {
  const Choice choice = choose([](int) { return BackendOptions{.asked = Backend::kNccl}; });
  for (const Status& status : choice.statuses)
    EXPECT_EQ(status, invalid("backend = \"nccl\" can not be: rank_0 computes on the CPU"));
}

// Over the memory of the host, as the stand-in can.
BackendOptions with_stand_in(Backend asked) { return {.asked = asked, .nccl_library = strategy::stand_in::path()}; }

TEST(Backend, WhereEveryRankCanNcclIsTakenWithItsVersionAndWhy) {
  const Choice choice = choose([](int) { return with_stand_in(Backend::kAuto); });
  for (const bool by_nccl : choice.by_nccl) EXPECT_TRUE(by_nccl);
  for (const std::string& why : choice.reasons) EXPECT_EQ(why, "NCCL 2.28.9, since every rank has a GPU of its own");
  const Choice asked = choose([](int) { return with_stand_in(Backend::kNccl); });
  for (const std::string& why : asked.reasons) EXPECT_EQ(why, "NCCL 2.28.9");
}

TEST(Backend, WhatWasChosenConnectsWhenTheChoiceIsLongOver) {
  strategy::stand_in::reset();
  strategy::RingRanks ranks(std::make_unique<collective::InprocNodes>(2));
  strategy::each_rank(ranks, 2, [&](strategy::Communicator& ring, int) {
    int waits = 0;
    auto chosen = choose_backend(with_stand_in(Backend::kNccl), ring, [&waits](strategy::Pending& pending) {
      ++waits;
      return pending.wait();
    });
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const int before = waits;
    EXPECT_EQ(chosen->nccl->connect(SystemClock().now() + std::chrono::seconds(60)), Status());
    EXPECT_EQ(waits, before + 1) << "the id goes over the ring, as whoever chose waits";
    const at::Tensor values = at::ones({3});
    EXPECT_EQ(chosen->nccl->all_reduce(values, nullptr)->wait(), Status());
    EXPECT_TRUE(at::equal(values, at::full({3}, 2.0F)));
  });
}

TEST(Backend, CompressionIsTheRings) {
  const codec::Codec int8 = *codec::parse_codec("int8");
  EXPECT_EQ(compression_for(int8, Backend::kAuto, false).value().codec, int8);
  EXPECT_EQ(compression_for(int8, Backend::kRing, false).value().remark, "");
  const auto by_nccl = compression_for(int8, Backend::kAuto, true);
  EXPECT_EQ(by_nccl->codec, codec::Codec());
  EXPECT_EQ(by_nccl->remark,
            "NCCL sends gradients as they are: compression = \"int8\" is without effect, and would need backend = "
            "\"ring\"");
  EXPECT_EQ(compression_for(codec::Codec(), Backend::kNccl, true).value().remark, "");
  EXPECT_EQ(compression_for(int8, Backend::kNccl, true).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ravnest::train
