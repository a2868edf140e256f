// The real NCCL, on GPUs. Ranks are processes. Where there are fewer GPUs than ranks they share them, each with a host
// id of its own, which makes NCCL take its way over the network: nothing that is measured here says how fast NCCL is.
// No test touches a GPU in this process, which could not be forked any more.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/strategy/communicate/nccl_communicator.h"
#include "ravnest/strategy/communicate/nccl_library.h"
#include "ravnest/strategy/communicate/testing/ranks.h"

namespace ravnest::strategy {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kLongestTestSeconds = 150;

// Of this machine, as far as NCCL can use them.
int gpus() {
  static const int count = test::in_child([] {
    if (!at::hasCUDA() || !nccl_available().ok()) return 0;
    return static_cast<int>(c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount());
  });
  return count;
}

// A pipe that processes share which are forked after it was made.
class Pipe {
 public:
  Pipe() {
    std::array<int, 2> numbers{};
    EXPECT_EQ(::pipe(numbers.data()), 0);
    from_ = Descriptor(numbers[0]);
    to_ = Descriptor(numbers[1]);
  }

  void put(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::write(to_.number(), bytes.data(), bytes.size()), std::ssize(bytes));
  }
  void take(std::span<std::byte> bytes) const {
    EXPECT_EQ(::read(from_.number(), bytes.data(), bytes.size()), std::ssize(bytes));
  }

 private:
  Descriptor from_;
  Descriptor to_;
};

// Where ranks wait for each other, without NCCL.
class Meeting {
 public:
  explicit Meeting(int world) : go_(world) {}

  // Returns when all ranks have come, with the bytes of rank 0.
  void of_all(int rank, std::span<std::byte> bytes) const {
    std::vector<std::byte> others(bytes.size());
    if (rank != 0) {
      come_.put(bytes);
      go_[rank].take(bytes);
      return;
    }
    for (std::size_t other = 1; other < go_.size(); ++other) come_.take(others);
    for (std::size_t other = 1; other < go_.size(); ++other) go_[other].put(bytes);
  }
  void of_all(int rank) const {
    std::array<std::byte, 1> nothing{};
    of_all(rank, nothing);
  }

 private:
  const Pipe come_;
  const std::vector<Pipe> go_;  // one for each: a rank that is fast must not take another's
};

class NcclOnGpus : public ::testing::TestWithParam<int> {
 protected:
  using Body = std::function<void(NcclCommunicator&, at::Device)>;

  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "there is no GPU, or no NCCL";
  }

  // Runs it on each rank; returns how the ranks' processes ended.
  std::vector<int> ends_of(const Body& body, bool own_host_ids = true) const {
    std::fflush(nullptr);
    std::vector<int> children;
    for (int rank = 0; rank < world; ++rank) {
      children.push_back(test::start_child([&, rank] { return be(rank, body, own_host_ids); }));
    }
    std::vector<int> ends(children.size());
    for (std::size_t i = 0; i < children.size(); ++i) ::waitpid(children[i], &ends[i], 0);
    return ends;
  }
  void on_each_rank(const Body& body) const { EXPECT_EQ(ends_of(body), std::vector<int>(world, 0)); }

  // What all ranks gave, added up.
  at::Tensor sum_of(const std::function<at::Tensor(int rank)>& given) const {
    at::Tensor sum = given(0);
    for (int rank = 1; rank < world; ++rank) sum = sum + given(rank);
    return sum;
  }

  static void expect_ok(const std::shared_ptr<Pending>& pending) { EXPECT_EQ(pending->wait(), Status()); }

  const int world = GetParam();
  const Meeting meeting{world};

 private:
  int be(int rank, const Body& body, bool own_host_ids) const {
    ::alarm(kLongestTestSeconds);
    if (world > gpus()) {
      if (own_host_ids) ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
      ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    }
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(rank % gpus()));
    const auto share = [&](std::span<std::byte> id) {
      meeting.of_all(rank, id);
      return Status();
    };
    auto communicator =
        NcclCommunicator::open({.rank = rank, .world = world, .device = device, .share_from_first = share});
    EXPECT_EQ(communicator.status(), Status());
    if (communicator.ok()) {
      try {
        body(**communicator, device);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      communicator->reset();
    }
    std::fflush(nullptr);
    return ::testing::Test::HasFailure() ? 1 : 0;
  }
};

TimePoint start_deadline() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

INSTANTIATE_TEST_SUITE_P(Worlds, NcclOnGpus, ::testing::Values(1, 2, 4), ::testing::PrintToStringParamName());

TEST_P(NcclOnGpus, OperationsGiveWhatTheHostComputes) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    const int rank = communicator.rank();
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const std::int64_t each : {0, 1, 1001, 300'007}) {
        const auto given = [&](int of) { return numbers_of(of, each * world, type); };
        const at::Tensor expected = sum_of(given);
        const auto expect_sum = [&](const at::Tensor& sum, const at::Tensor& of) {
          if (world <= 2) {
            EXPECT_TRUE(same_bits(sum, of)) << type << ", " << each;
          }
          const double close = type == at::kHalf || type == at::kBFloat16 ? 0.05 : 1e-5;
          EXPECT_TRUE(at::allclose(sum.cpu(), of, close, close)) << type << ", " << each;
        };
        const at::Tensor reduced = given(rank).to(device);
        const at::Tensor scattered = given(rank).to(device);
        const at::Tensor gathered = given(rank).to(device);
        const at::Tensor sent = given(rank).to(device);
        const std::vector<std::shared_ptr<Pending>> begun = {
            communicator.all_reduce(reduced, nullptr), communicator.reduce_scatter(scattered, nullptr),
            communicator.all_gather(gathered), communicator.broadcast(sent, world - 1)};
        for (const auto& pending : begun) expect_ok(pending);
        expect_sum(reduced, expected);
        expect_sum(scattered.narrow(0, rank * each, each), expected.narrow(0, rank * each, each));
        for (int of = 0; of < world; ++of) {
          EXPECT_TRUE(same_bits(gathered.narrow(0, of * each, each), given(of).narrow(0, of * each, each)));
        }
        EXPECT_TRUE(same_bits(sent, given(world - 1)));
        // The same bits on all ranks: those of rank 0 are the others' own.
        const at::Tensor of_first = reduced.clone();
        expect_ok(communicator.broadcast(of_first, 0));
        EXPECT_TRUE(same_bits(of_first, reduced));
      }
    }
  });
}

TEST_P(NcclOnGpus, BitsOfAnyTypeAreMoved) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    for (const at::ScalarType type : {at::kByte, at::kBool, at::kHalf, at::kBFloat16, at::kInt, at::kLong}) {
      for (int root = 0; root < world; ++root) {
        const at::Tensor values = bits_of(communicator.rank(), 10'001, type).to(device);
        expect_ok(communicator.broadcast(values, root));
        EXPECT_TRUE(same_bits(values, bits_of(root, 10'001, type))) << type << " from " << root;
      }
    }
  });
}

TEST_P(NcclOnGpus, SumsOfTheHostAreExactAndTheSameEverywhere) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;  // no double has it
    std::vector<std::shared_ptr<Pending>> begun;
    std::vector<std::vector<std::int64_t>> counts(40, {kLarge + communicator.rank(), -kLarge});
    std::vector<double> numbers = {1.0 / 3 + communicator.rank(), communicator.rank() == 0 ? 1e16 : 1.0};
    for (auto& each : counts) {
      begun.push_back(communicator.all_reduce(at::ones({1000}, device), nullptr));
      begun.push_back(communicator.sum(std::span(each)));
    }
    begun.push_back(communicator.sum(std::span(numbers)));
    for (const auto& each : begun) expect_ok(each);
    for (const auto& each : counts) {
      EXPECT_EQ(each, (std::vector<std::int64_t>{world * kLarge + world * (world - 1) / 2, -world * kLarge}));
    }
    std::vector<double> expected = {0, 0};
    for (int rank = 0; rank < world; ++rank) {
      expected[0] += 1.0 / 3 + rank;
      expected[1] += rank == 0 ? 1e16 : 1.0;
    }
    EXPECT_EQ(numbers, expected);
  });
}

TEST_P(NcclOnGpus, OrderOfTheCurrentStreamHoldsOnBothSides) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    const c10::impl::VirtualGuardImpl streams(device.type());
    const c10::StreamGuard guard(streams.getStreamFromGlobalPool(device));
    const at::Tensor factor = at::full({2048, 2048}, 1.0F / 2048, device);
    for (int i = 0; i < 10; ++i) {
      at::Tensor work = at::full({2048, 2048}, static_cast<float>(communicator.rank() + i), device);
      for (int k = 0; k < 20; ++k) work = at::mm(work, factor);
      const at::Tensor values = work.view(-1);
      expect_ok(communicator.all_reduce(values, nullptr));
      const at::Tensor after = values * 2;
      const float expected = 2.0F * static_cast<float>(world * i + world * (world - 1) / 2);
      EXPECT_TRUE(at::allclose(after.cpu(), at::full({2048 * 2048}, expected), 1e-3));
    }
  });
}

TEST_P(NcclOnGpus, MemoryOfATensorThatNobodyWaitsForStaysUntilTheOperationIsDone) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    constexpr std::int64_t kElements = 8 << 20;
    std::vector<double> ready = {1};
    expect_ok(communicator.sum(std::span(ready)));
    for (int i = 0; i < 5; ++i) {
      at::Tensor values = at::ones({kElements}, device);
      std::shared_ptr<Pending> begun = communicator.all_reduce(values, nullptr);
      if (communicator.rank() == 0 && world > 1) {
        begun.reset();
        values.reset();
        const at::Tensor other = at::full({kElements}, 100.0F, device);  // the allocator likes to give the same memory
        expect_ok(communicator.sum(std::span(ready)));
      } else {
        expect_ok(communicator.sum(std::span(ready)));
        expect_ok(begun);
        EXPECT_TRUE(at::equal(values.cpu(), at::full({kElements}, static_cast<float>(world))));
      }
    }
  });
}

TEST_P(NcclOnGpus, AbortEndsWhatTheOthersNeverJoinAndLeavesTheGpuUsable) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    std::vector<double> numbers = {1};
    expect_ok(communicator.sum(std::span(numbers)));
    meeting.of_all(communicator.rank());
    const Status why = cancelled("rank 1 has another model");
    if (communicator.rank() == 0) {
      const auto begun = communicator.all_reduce(at::ones({1000}, device), nullptr);
      const auto sum = communicator.sum(std::span(numbers));
      std::thread([&] { communicator.abort(why); }).join();
      if (world > 1) {
        EXPECT_EQ(begun->wait(), why);
        EXPECT_EQ(sum->wait(), why);
      }
      EXPECT_EQ(communicator.broadcast(at::ones({4}, device), 0)->wait(), why);
      EXPECT_EQ(at::ones({1000}, device).sum().item<float>(), 1000);
    }
    meeting.of_all(communicator.rank());
  });
}

TEST_P(NcclOnGpus, EndWithAnOperationUnderWayIsNoHang) {
  on_each_rank([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    std::vector<double> numbers = {1};
    expect_ok(communicator.sum(std::span(numbers)));
    meeting.of_all(communicator.rank());
    if (communicator.rank() == 0) (void)communicator.all_reduce(at::ones({1000}, device), nullptr);
  });
}

TEST_P(NcclOnGpus, KilledRankEndsTheOthersInTime) {
  if (world == 1) GTEST_SKIP() << "there is nobody to lose";
  if (gpus() >= world) GTEST_SKIP() << "over NVLink and shared memory NCCL does not see it";
  const std::vector<int> ends = ends_of([&](NcclCommunicator& communicator, at::Device device) {
    ASSERT_EQ(communicator.connect(start_deadline()), Status());
    std::vector<double> numbers = {1};
    expect_ok(communicator.sum(std::span(numbers)));
    meeting.of_all(communicator.rank());
    if (communicator.rank() == world - 1) ::raise(SIGKILL);
    const TimePoint begin = std::chrono::steady_clock::now();
    const auto begun = communicator.all_reduce(at::ones({1 << 20}, device), nullptr);
    const Status status = communicator.sum(std::span(numbers))->wait();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    EXPECT_THAT(status.message(), HasSubstr(" failed on rank "));
    EXPECT_EQ(begun->wait(), status);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(at::ones({1000}, device).sum().item<float>(), 1000);
  });
  std::vector<int> expected(world, 0);
  expected.back() = SIGKILL;
  EXPECT_EQ(ends, expected);
}

TEST_P(NcclOnGpus, MoreRanksThanGpusAreRefusedWithNcclsOwnWords) {
  if (gpus() >= world) GTEST_SKIP() << "each rank has a GPU";
  const std::vector<int> ends = ends_of(
      [&](NcclCommunicator& communicator, at::Device /*device*/) {
        const Status status = communicator.connect(start_deadline());
        EXPECT_EQ(status.code(), Code::kInvalid) << status;
        EXPECT_THAT(status.message(), HasSubstr("Duplicate GPU"));
      },
      /*own_host_ids=*/false);
  EXPECT_EQ(ends, std::vector<int>(world, 0));
}

}  // namespace
}  // namespace ravnest::strategy
