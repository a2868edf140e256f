// What every communicator has to pass. A test program includes it once and says for what:
//
//   INSTANTIATE_TEST_SUITE_P(Ring, CommunicatorConformance, in_worlds({backend}, {1, 2, 3, 4}), name_of_world);
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <future>
#include <string>
#include <tuple>
#include <vector>

#include "ravnest/strategy/communicate/testing/ranks.h"

namespace ravnest::strategy {

class CommunicatorConformance : public testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  using Given = std::function<at::Tensor(int rank)>;

  void SetUp() override {
    if (!backend().available()) GTEST_SKIP() << "this machine has not what " << backend() << " needs";
    at::set_num_threads(1);  // each rank's thread would get a pool of its own
    ranks = backend().make(world);
  }

  const Backend& backend() const { return std::get<0>(GetParam()); }

  // What all ranks gave, added up in the order of ranks. Two numbers have one sum whatever the order.
  at::Tensor sum_of(const Given& given) const {
    at::Tensor sum = given(0);
    for (int rank = 1; rank < world; ++rank) sum = sum + given(rank);
    return sum;
  }
  void expect_sum(const at::Tensor& sum, const at::Tensor& expected) const {
    if (world <= 2) {
      EXPECT_TRUE(same_bits(sum, expected));
    } else {
      EXPECT_TRUE(at::allclose(sum.cpu(), expected, 1e-5, 1e-6));
    }
  }
  at::Tensor on_device(const at::Tensor& values, int rank) { return values.clone().to(ranks->device(rank)); }
  static void expect_ok(const std::shared_ptr<Pending>& pending) {
    const Status ended = pending->wait();
    EXPECT_TRUE(ended.ok()) << ended;
  }
  void on_each_rank(const std::function<void(Communicator&, int)>& what) { each_rank(*ranks, world, what); }

  const int world = std::get<1>(GetParam());
  std::unique_ptr<LocalRanks> ranks;
};

inline auto in_worlds(std::vector<Backend> backends, std::vector<int> worlds) {
  return testing::Combine(testing::ValuesIn(std::move(backends)), testing::ValuesIn(std::move(worlds)));
}
inline std::string name_of_world(const testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
}

inline const Status kConformanceReason = cancelled("rank_1 has another model");

TEST_P(CommunicatorConformance, ARankKnowsWhichItIs) {
  on_each_rank([&](Communicator& communicator, int rank) {
    EXPECT_EQ(communicator.rank(), rank);
    EXPECT_EQ(communicator.world(), world);
  });
}

TEST_P(CommunicatorConformance, AnAllReduceGivesTheSumWithTheSameBitsToAllRanks) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    if (type == at::kDouble && !backend().adds_doubles) continue;
    for (const std::int64_t elements : {0, 1, 3, 8, 1001, 300'007}) {
      const Given given = [&](int rank) { return numbers_of(rank, elements, type); };
      const at::Tensor expected = sum_of(given);
      std::vector<at::Tensor> sums(static_cast<std::size_t>(world));
      on_each_rank([&](Communicator& communicator, int rank) {
        at::Tensor values = on_device(given(rank), rank);
        expect_ok(communicator.all_reduce(values, nullptr));
        expect_sum(values, expected);
        sums[static_cast<std::size_t>(rank)] = values.cpu();
      });
      for (const at::Tensor& sum : sums) EXPECT_TRUE(same_bits(sum, sums[0]));
    }
  }
}

TEST_P(CommunicatorConformance, AReduceScatterGivesEachRankItsSegmentOfTheSum) {
  for (const std::int64_t each : {0, 1, 5, 70'001}) {
    const Given given = [&](int rank) { return numbers_of(rank, each * world); };
    const at::Tensor expected = sum_of(given);
    on_each_rank([&](Communicator& communicator, int rank) {
      at::Tensor values = on_device(given(rank), rank);
      expect_ok(communicator.reduce_scatter(values, nullptr));
      expect_sum(values.narrow(0, rank * each, each), expected.narrow(0, rank * each, each));
    });
  }
}

TEST_P(CommunicatorConformance, AnAllGatherMovesTheBitsOfAllSegments) {
  for (const at::ScalarType type :
       {at::kByte, at::kBool, at::kHalf, at::kBFloat16, at::kInt, at::kFloat, at::kLong, at::kDouble}) {
    for (const std::int64_t each : {0, 1, 3, 40'001}) {
      std::vector<at::Tensor> segments;
      for (int rank = 0; rank < world; ++rank) segments.push_back(bits_of(rank, each, type));
      const at::Tensor expected = at::cat(segments);
      on_each_rank([&](Communicator& communicator, int rank) {
        at::Tensor mine = at::zeros_like(expected);
        mine.narrow(0, rank * each, each).copy_(segments[static_cast<std::size_t>(rank)]);
        at::Tensor values = on_device(mine, rank);
        expect_ok(communicator.all_gather(values));
        EXPECT_TRUE(same_bits(values, expected)) << type << ", " << each;
      });
    }
  }
}

TEST_P(CommunicatorConformance, ABroadcastMovesTheBitsOfItsRoot) {
  for (const at::ScalarType type : {at::kByte, at::kBool, at::kHalf, at::kBFloat16, at::kFloat, at::kLong}) {
    for (const std::int64_t elements : {0, 1, 7, 150'001}) {
      for (int root = 0; root < world; ++root) {
        on_each_rank([&](Communicator& communicator, int rank) {
          at::Tensor values = on_device(bits_of(rank, elements, type), rank);
          expect_ok(communicator.broadcast(values, root));
          EXPECT_TRUE(same_bits(values, bits_of(root, elements, type))) << type << " from " << root;
        });
      }
    }
  }
}

TEST_P(CommunicatorConformance, ManyOperationsMayBeginBeforeTheFirstIsWaitedFor) {
  constexpr int kOperations = 60;
  on_each_rank([&](Communicator& communicator, int rank) {
    std::vector<at::Tensor> values;
    std::vector<std::shared_ptr<Pending>> begun;
    std::vector<std::int64_t> counts(kOperations, 1);
    for (int i = 0; i < kOperations; ++i) {
      values.push_back(on_device(numbers_of(rank, 1 + i * 700, at::kFloat, i), rank));
      begun.push_back(i % 2 == 0 ? communicator.all_reduce(values.back(), nullptr)
                                 : communicator.broadcast(values.back(), i % world));
      begun.push_back(communicator.sum(std::span(counts).subspan(static_cast<std::size_t>(i), 1)));
    }
    for (auto each = begun.rbegin(); each != begun.rend(); ++each) expect_ok(*each);
    for (int i = 0; i < kOperations; ++i) {
      const Given given = [&](int of) { return numbers_of(of, 1 + i * 700, at::kFloat, i); };
      expect_sum(values[static_cast<std::size_t>(i)], i % 2 == 0 ? sum_of(given) : given(i % world));
      EXPECT_EQ(counts[static_cast<std::size_t>(i)], world);
    }
  });
}

TEST_P(CommunicatorConformance, OperationsOnOneTensorTakePlaceInTheOrderOfIssue) {
  const std::int64_t each = 10'000;
  on_each_rank([&](Communicator& communicator, int rank) {
    at::Tensor values = on_device(at::full({each * world}, rank + 1.0F), rank);
    const auto first = communicator.all_reduce(values, nullptr);       // 1 + 2 + .. everywhere
    const auto second = communicator.reduce_scatter(values, nullptr);  // times world, in the own segment
    const auto third = communicator.all_gather(values);
    const auto fourth = communicator.all_reduce(values, nullptr);  // times world
    expect_ok(fourth);
    for (const auto& begun : {first, second, third}) expect_ok(begun);
    EXPECT_TRUE(at::equal(values.cpu(), at::full({each * world}, world * (world + 1) / 2.0F * world * world)));
  });
}

TEST_P(CommunicatorConformance, WaitingAgainGivesTheSame) {
  on_each_rank([&](Communicator& communicator, int rank) {
    at::Tensor values = on_device(at::ones({10}), rank);
    const auto begun = communicator.all_reduce(values, nullptr);
    for (int i = 0; i < 3; ++i) expect_ok(begun);
    EXPECT_TRUE(at::equal(values.cpu(), at::full({10}, static_cast<float>(world))));
  });
}

TEST_P(CommunicatorConformance, SumsOfIntegersAreExact) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;  // no double has it
  on_each_rank([&](Communicator& communicator, int rank) {
    std::vector<std::int64_t> values = {kLarge + rank, -kLarge, rank};
    expect_ok(communicator.sum(std::span(values)));
    const std::int64_t ranks_added = world * (world - 1) / 2;
    EXPECT_EQ(values, (std::vector<std::int64_t>{world * kLarge + ranks_added, -world * kLarge, ranks_added}));
  });
}

TEST_P(CommunicatorConformance, SumsOfDoublesHaveTheSameBitsEverywhere) {
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(world));
  on_each_rank([&](Communicator& communicator, int rank) {
    std::vector<double> values = {1.0 / 3 + rank, 1e300, rank == 0 ? 1e16 : 1.0};
    expect_ok(communicator.sum(std::span(values)));
    EXPECT_NEAR(values[0], world / 3.0 + world * (world - 1) / 2.0, 1e-12);
    EXPECT_EQ(values[1] / world, 1e300);
    sums[static_cast<std::size_t>(rank)] = values;
  });
  for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST_P(CommunicatorConformance, ASumIsWrittenWhenItIsWaitedFor) {
  on_each_rank([&](Communicator& communicator, int /*rank*/) {
    std::vector<double> values = {1};
    const auto begun = communicator.sum(std::span(values));
    std::vector<double> later = {2};
    expect_ok(communicator.sum(std::span(later)));
    EXPECT_EQ(later[0], 2.0 * world);
    EXPECT_EQ(values[0], 1);
    values[0] = 10;  // it was taken before
    expect_ok(begun);
    EXPECT_EQ(values[0], world);
    values[0] = 5;
    expect_ok(begun);
    EXPECT_EQ(values[0], 5);
  });
}

TEST_P(CommunicatorConformance, WhatCompressionLosesIsPartOfTheNextSum) {
  if (!backend().compresses) GTEST_SKIP() << "the backend takes no compression";
  constexpr std::int64_t kElements = 1000;
  constexpr int kTimes = 40;
  const Given given = [&](int rank) { return numbers_of(rank, kElements); };
  const at::Tensor expected = sum_of(given);
  std::vector<at::Tensor> last(static_cast<std::size_t>(world));
  on_each_rank([&](Communicator& communicator, int rank) {
    const auto compression = std::make_shared<Compression>(*codec::parse_codec("int4"), std::size_t{kElements});
    at::Tensor total = at::zeros({kElements});
    at::Tensor values;
    for (int i = 0; i < kTimes; ++i) {
      values = on_device(given(rank), rank);
      expect_ok(communicator.all_reduce(values, compression));
      total += values.cpu();
    }
    EXPECT_TRUE(at::allclose(total / kTimes, expected, 0, 0.06));
    EXPECT_EQ(same_bits(values, expected), world == 1) << "nothing was compressed";
    last[static_cast<std::size_t>(rank)] = values.cpu();
  });
  for (const at::Tensor& sum : last) EXPECT_TRUE(same_bits(sum, last[0]));
}

TEST_P(CommunicatorConformance, ATensorThatDoesNotFitThrows) {
  on_each_rank([&](Communicator& communicator, int rank) {
    const auto zeros = [&](std::int64_t elements, at::ScalarType type = at::kFloat) {
      return on_device(at::zeros({elements}, type), rank);
    };
    EXPECT_THROW(communicator.all_reduce(zeros(8).narrow(0, 0, 8).view({2, 4}).t(), nullptr), c10::Error);
    EXPECT_THROW(communicator.all_reduce(zeros(8, at::kInt), nullptr), c10::Error);
    EXPECT_THROW(communicator.all_reduce(at::Tensor(), nullptr), c10::Error);
    EXPECT_THROW(communicator.all_gather(zeros(8, at::kComplexDouble)), c10::Error);
    EXPECT_THROW(communicator.broadcast(zeros(8), world), c10::Error);
    EXPECT_THROW(communicator.broadcast(zeros(8), -1), c10::Error);
    if (world > 1) {
      EXPECT_THROW(communicator.all_gather(zeros(world + 1)), c10::Error);
      EXPECT_THROW(communicator.reduce_scatter(zeros(world + 1), nullptr), c10::Error);
    }
    // None of these has begun.
    at::Tensor values = on_device(at::ones({4}), rank);
    expect_ok(communicator.all_reduce(values, nullptr));
    EXPECT_TRUE(at::equal(values.cpu(), at::full({4}, static_cast<float>(world))));
  });
}

TEST_P(CommunicatorConformance, AnAbortEndsAllWaitsWithItsReason) {
  Communicator& communicator = ranks->of(0);
  std::vector<std::shared_ptr<Pending>> begun;
  std::vector<std::int64_t> counts = {1};
  if (world > 1) {  // which the others never take part in
    for (int i = 0; i < 3; ++i) begun.push_back(communicator.all_reduce(on_device(at::ones({100'000}), 0), nullptr));
    begun.push_back(communicator.sum(std::span(counts)));
  }
  std::vector<std::future<Status>> waits;
  for (const auto& each : begun) waits.push_back(std::async(std::launch::async, [&each] { return each->wait(); }));
  std::thread([&] { communicator.abort(kConformanceReason); }).join();
  for (auto& each : waits) {
    ASSERT_EQ(each.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_EQ(each.get(), kConformanceReason);
  }
  communicator.abort(cancelled("later"));
  EXPECT_EQ(communicator.broadcast(on_device(at::ones({4}), 0), 0)->wait(), kConformanceReason);
  EXPECT_EQ(communicator.sum(std::span(counts))->wait(), kConformanceReason);
  EXPECT_EQ(counts[0], 1);
}

TEST_P(CommunicatorConformance, AnAbortInTheMiddleOfManyOperationsEndsAllRanks) {
  // All ranks are busy with more than can be done by the time that one has begun the last.
  on_each_rank([&](Communicator& communicator, int rank) {
    std::vector<std::shared_ptr<Pending>> begun;
    for (int i = 0; i < 20; ++i)
      begun.push_back(communicator.all_reduce(on_device(at::ones({200'000}), rank), nullptr));
    communicator.abort(kConformanceReason);
    bool ended = false;
    for (const auto& each : begun) {
      const Status how = each->wait();
      EXPECT_TRUE(how.ok() ? !ended : how == kConformanceReason) << how;
      ended = ended || !how.ok();
    }
    EXPECT_EQ(communicator.all_reduce(on_device(at::ones({2}), rank), nullptr)->wait(), kConformanceReason);
  });
}

TEST_P(CommunicatorConformance, ALostRankEndsTheOthersByItsName) {
  if (world == 1) GTEST_SKIP() << "there is nobody to lose";
  const int lost = world - 1;
  on_each_rank([&](Communicator& communicator, int rank) {
    expect_ok(communicator.all_reduce(on_device(at::ones({1000}), rank), nullptr));
  });
  std::vector<std::shared_ptr<Pending>> begun;
  for (int rank = 0; rank < lost; ++rank) {
    begun.push_back(ranks->of(rank).all_reduce(on_device(at::ones({1000}), rank), nullptr));
  }
  ranks->lose(lost);
  for (int rank = 0; rank < lost; ++rank) {
    auto wait = std::async(std::launch::async, [&, rank] { return begun[static_cast<std::size_t>(rank)]->wait(); });
    if (wait.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      ADD_FAILURE() << "rank " << rank << " still waits";
      ranks->of(rank).abort(deadline("the test takes too long"));
    }
    const Status ended = wait.get();
    EXPECT_EQ(ended.code(), Code::kUnavailable) << ended;
    if (backend().names_who_is_lost) {
      EXPECT_NE(ended.message().find("rank_" + std::to_string(lost) + " "), std::string::npos) << ended;
    }
    EXPECT_EQ(ranks->of(rank).broadcast(on_device(at::ones({4}), rank), 0)->wait(), ended);
  }
}

TEST_P(CommunicatorConformance, DestructionEndsWhatIsUnderWay) {
  if (world == 1) GTEST_SKIP() << "nothing is ever under way";
  const auto begun = ranks->of(0).all_reduce(on_device(at::ones({1000}), 0), nullptr);
  auto wait = std::async(std::launch::async, [&] { return begun->wait(); });
  ranks->close(0);
  ASSERT_EQ(wait.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(wait.get().code(), Code::kCancelled);
}

TEST_P(CommunicatorConformance, TheOrderOfACurrentStreamHolds) {
  if (ranks->device(0).is_cpu()) GTEST_SKIP() << "there is no GPU";
  on_each_rank([&](Communicator& communicator, int rank) {
    const at::Device device = ranks->device(rank);
    const c10::impl::VirtualGuardImpl gpu(device.type());
    const c10::StreamGuard guard(gpu.getStreamFromGlobalPool(device));
    const at::Tensor factor = at::full({2048, 2048}, 1.0F / 2048, device);
    for (int i = 0; i < 10; ++i) {
      // Values that the GPU is still busy with when the operation begins, and that are used by it right after the wait.
      at::Tensor work = at::full({2048, 2048}, static_cast<float>(rank + i), device);
      for (int k = 0; k < 20; ++k) work = at::mm(work, factor);
      at::Tensor values = work.view(-1).contiguous();
      expect_ok(communicator.all_reduce(values, nullptr));
      const at::Tensor after = values * 2;
      const float expected = 2.0F * static_cast<float>(world * i + world * (world - 1) / 2);
      EXPECT_TRUE(at::allclose(after.cpu(), at::full({2048 * 2048}, expected), 1e-3));
    }
  });
}

}  // namespace ravnest::strategy
