// NCCL communicators of one process over the stand-in: tensors are of the host.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/strategy/communicate/nccl_communicator.h"
#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"
#include "ravnest/strategy/communicate/testing/ranks.h"

namespace ravnest::strategy {

class NcclRanks final : public LocalRanks {
 public:
  explicit NcclRanks(int world, Duration time_for_reason = std::chrono::seconds(1)) {
    stand_in::reset();
    std::promise<std::vector<std::byte>> said;
    const std::shared_future<std::vector<std::byte>> heard = said.get_future().share();
    for (int rank = 0; rank < world; ++rank) {
      const auto share = [&, rank](std::span<std::byte> id) {
        if (rank == 0) said.set_value({id.begin(), id.end()});
        std::ranges::copy(heard.get(), id.begin());
        return Status();
      };
      communicators_.push_back(NcclCommunicator::open({.rank = rank,
                                                       .world = world,
                                                       .device = at::kCPU,
                                                       .share_from_first = share,
                                                       .time_for_reason = time_for_reason,
                                                       .library = stand_in::path()})
                                   .value());
    }
    std::vector<std::future<Status>> connected;
    for (auto& each : communicators_) {
      connected.push_back(std::async(std::launch::async, [&each] {
        return each->connect(std::chrono::steady_clock::now() + std::chrono::seconds(20));
      }));
    }
    for (auto& each : connected) EXPECT_EQ(each.get(), Status());
  }

  NcclCommunicator& of(int rank) override { return *communicators_[static_cast<std::size_t>(rank)]; }
  void close(int rank) override { communicators_[static_cast<std::size_t>(rank)].reset(); }
  void lose(int rank) override {
    of(rank).abort(cancelled("it was killed"));
    close(rank);
  }

 private:
  std::vector<std::unique_ptr<NcclCommunicator>> communicators_;
};

}  // namespace ravnest::strategy
