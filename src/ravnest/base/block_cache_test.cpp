#include "ravnest/base/block_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace ravnest {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

TEST(BlockCache, ABlockThatWasGivenBackServesForAsMuchAgain) {
  BlockCache cache;
  void* first = cache.take(3 * kMegabyte);
  std::memset(first, 7, 3 * kMegabyte);
  EXPECT_EQ(cache.in_use(), 3 * kMegabyte);
  EXPECT_TRUE(cache.give(first));
  EXPECT_EQ(cache.kept(), 3 * kMegabyte);
  void* second = cache.take(3 * kMegabyte - 100);
  EXPECT_EQ(second, first);
  EXPECT_EQ(cache.kept(), 0U);
  EXPECT_TRUE(cache.give(second));
}

TEST(BlockCache, ABlockServesForLessOnlyWhereLittleIsWasted) {
  BlockCache cache;
  void* large = cache.take(8 * kMegabyte);
  cache.give(large);
  void* small = cache.take(2 * kMegabyte);
  EXPECT_NE(small, large);
  cache.give(small);
}

TEST(BlockCache, WhatIsNotItsOwnIsNotTaken) {
  BlockCache cache;
  int other = 0;
  EXPECT_FALSE(cache.give(&other));
  void* block = cache.take(1);
  EXPECT_TRUE(cache.give(block));
  EXPECT_FALSE(cache.give(block));
}

TEST(BlockCache, InUseAndKeptTogetherAreNeverMoreThanWasOnceInUse) {
  BlockCache cache;
  std::mt19937 random(5);
  std::vector<void*> held;
  std::size_t most_in_use = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (held.size() < 2 || (held.size() < 30 && random() % 2 == 0)) {
      held.push_back(cache.take(1 + random() % (4 * kMegabyte)));
    } else {
      const std::size_t which = random() % held.size();
      ASSERT_TRUE(cache.give(held[which]));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    most_in_use = std::max(most_in_use, cache.in_use());
    ASSERT_LE(cache.in_use() + cache.kept(), most_in_use);
  }
  for (void* block : held) cache.give(block);
}

TEST(BlockCache, ABlockThatNobodyWantsForLongGoesBackToTheSystem) {
  BlockCache cache;
  cache.give(cache.take(100 * kMegabyte));
  EXPECT_EQ(cache.kept(), 100 * kMegabyte);
  for (std::uint64_t i = 0; i <= BlockCache::kLong / 2; ++i) cache.give(cache.take(kMegabyte));
  EXPECT_EQ(cache.kept(), kMegabyte);
}

TEST(BlockCache, ThreadsTakeAndGiveAtOnce) {
  BlockCache cache;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = 1 + random() % kMegabyte;
      auto* block = static_cast<unsigned char*>(cache.take(bytes));
      block[0] = static_cast<unsigned char>(seed);
      block[bytes - 1] = static_cast<unsigned char>(seed);
      EXPECT_EQ(block[0], static_cast<unsigned char>(seed));
      cache.give(block);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.in_use(), 0U);
}

}  // namespace
}  // namespace ravnest
