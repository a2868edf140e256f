#include "ravnest/transport/buffers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "ravnest/wire/fields.h"

namespace ravnest::transport {
namespace {

constexpr std::size_t kLarge = 1 << 20;

TEST(BufferPool, BuffersAreAlignedAndOfTheSizeAskedFor) {
  BufferPool pool(8 << 20);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{64 << 10}, (std::size_t{64} << 10) + 1, kLarge}) {
    const Buffer buffer = pool.take(size);
    EXPECT_EQ(buffer.bytes.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes.data()) % wire::kAlignment, 0);
    std::ranges::fill(buffer.bytes, std::byte{1});
  }
}

TEST(BufferPool, ALargeBlockIsUsedAgain) {
  BufferPool pool(8 << 20);
  const std::byte* const block = pool.take(kLarge).bytes.data();
  EXPECT_EQ(pool.take(kLarge - 1000).bytes.data(), block);
}

TEST(BufferPool, OfSeveralBlocksTheOneThatWasUsedLastIsUsedAgain) {
  BufferPool pool(8 << 20);
  std::optional<Buffer> blocks[3] = {pool.take(kLarge), pool.take(kLarge), pool.take(kLarge)};
  const std::byte* const last = blocks[1]->bytes.data();
  for (const int i : {2, 0, 1}) blocks[i].reset();
  EXPECT_EQ(pool.take(kLarge).bytes.data(), last);
}

TEST(BufferPool, ABlockInUseIsNotHandedOut) {
  BufferPool pool(8 << 20);
  const Buffer first = pool.take(kLarge);
  const Buffer second = pool.take(kLarge);
  EXPECT_NE(first.bytes.data(), second.bytes.data());
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  BufferPool pool(kLarge);
  const std::byte* large = nullptr;
  const std::byte* small = nullptr;
  {
    const Buffer a = pool.take(kLarge);
    const Buffer b = pool.take(kLarge / 2);
    large = a.bytes.data();
    small = b.bytes.data();
  }
  // Both together are too much: the larger went, and the memory is the allocator's again.
  EXPECT_EQ(pool.take(kLarge / 2).bytes.data(), small);
  EXPECT_NE(large, nullptr);
  BufferPool none(0);
  { const Buffer a = none.take(kLarge); }
  EXPECT_EQ(none.take(kLarge).bytes.size(), kLarge);
}

TEST(BufferPool, BuffersOutliveIt) {
  std::optional<BufferPool> pool(std::in_place, 8 << 20);
  const Buffer buffer = pool->take(kLarge);
  pool.reset();
  std::ranges::fill(buffer.bytes, std::byte{2});
  EXPECT_EQ(buffer.bytes.back(), std::byte{2});
}

TEST(BufferPool, IsUsedByManyThreads) {
  BufferPool pool(4 << 20);
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) {
    threads.emplace_back([&pool, i] {
      for (int round = 0; round < 200; ++round) {
        const Buffer buffer = pool.take(static_cast<std::size_t>(i) * 70'000);
        std::ranges::fill(buffer.bytes, static_cast<std::byte>(i));
        ASSERT_EQ(buffer.bytes.back(), static_cast<std::byte>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ravnest::transport
