#include "ravnest/transport/buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
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

TEST(GrowingBuffer, GrowsWithWhatHasComeAndKeepsIt) {
  BufferPool pool(8 << 20);
  constexpr std::size_t kAnnounced = std::size_t{1} << 40;
  GrowingBuffer buffer = pool.begin(kAnnounced);
  EXPECT_LE(buffer.capacity(), 8 << 20);
  std::size_t come = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::span<std::byte> part = buffer.part(come, kLarge);
    ASSERT_EQ(part.size(), kLarge);
    std::ranges::fill(part, static_cast<std::byte>(i));
    come += kLarge;
    EXPECT_LE(buffer.capacity(), std::max<std::size_t>(8 << 20, 2 * come));
  }
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(buffer.part(i * kLarge, 1)[0], static_cast<std::byte>(i));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.part(0, 1).data()) % wire::kAlignment, 0);
}

TEST(GrowingBuffer, AFinishedOneIsWholeAndItsMemoryIsUsedAgain) {
  BufferPool pool(64 << 20);
  for (const std::size_t size : {std::size_t{1}, std::size_t{70'000}, (std::size_t{20} << 20) + 5}) {
    GrowingBuffer buffer = pool.begin(size);
    for (std::size_t at = 0; at < size; at += kLarge) {
      std::ranges::fill(buffer.part(at, std::min(kLarge, size - at)), std::byte{7});
    }
    const std::byte* block = nullptr;
    {
      const Buffer whole = std::move(buffer).finish();
      EXPECT_EQ(whole.bytes.size(), size);
      EXPECT_TRUE(std::ranges::all_of(whole.bytes, [](std::byte byte) { return byte == std::byte{7}; }));
      block = whole.bytes.data();
    }
    // What lies ready is taken whole.
    if (size >= 70'000) {
      EXPECT_EQ(pool.begin(size).part(size - 1, 1).data(), block + size - 1);
    }
  }
}

TEST(GrowingBuffer, OneThatWasNotFinishedIsGivenBackToTheSystem) {
  BufferPool pool(1 << 30);
  { GrowingBuffer buffer = pool.begin(std::size_t{1} << 40); }
  GrowingBuffer first = pool.begin(std::size_t{100} << 20);
  GrowingBuffer second;
  second = std::move(first);
  EXPECT_EQ(first.capacity(), 0);
  EXPECT_LE(second.capacity(), 8 << 20);
}

#ifndef RAVNEST_SANITIZED
TEST(GrowingBuffer, SaysWhereThereIsNoMemory) {
  BufferPool pool(0);
  GrowingBuffer buffer = pool.begin(std::size_t{1} << 61);
  EXPECT_THROW((void)buffer.part(0, std::size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(buffer.part(0, 100).size(), 100);
}
#endif

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
