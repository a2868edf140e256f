#include "ravnest/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ravnest::data {
namespace {

using Rows = std::vector<std::int64_t>;

Rows epoch_of(const Batches& batches, std::uint64_t epoch) {
  Rows all;
  for (std::int64_t step = 0; step < batches.per_epoch(); ++step) {
    const Rows rows = batches.rows(epoch, static_cast<std::uint64_t>(step));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(Batches, UnshuffledBatchesAreInOrderAndTheLastMayBeShort) {
  const Batches batches(7, 3, false, 42);
  EXPECT_EQ(batches.per_epoch(), 3);
  EXPECT_EQ(batches.rows(0, 0), (Rows{0, 1, 2}));
  EXPECT_EQ(batches.rows(5, 1), (Rows{3, 4, 5}));
  EXPECT_EQ(batches.rows(0, 2), Rows{6});
  EXPECT_EQ(batches.rows(0, 3), Rows());
  EXPECT_EQ(batches.rows(0, UINT64_MAX), Rows());
}

TEST(Batches, EverySampleComesOnceAnEpoch) {
  for (const std::int64_t samples : {0, 1, 2, 3, 15, 16, 17, 64, 65, 1797, 5000}) {
    for (const std::uint64_t seed : {0U, 42U}) {
      Rows rows = epoch_of(Batches(samples, 64, true, seed), 3);
      std::ranges::sort(rows);
      Rows expected(static_cast<std::size_t>(samples));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(rows, expected) << samples << " samples, seed " << seed;
    }
  }
}

TEST(Batches, OrderDependsOnSeedAndEpochAlone) {
  const Batches batches(1797, 64, true, 42);
  const Rows first = epoch_of(batches, 0);
  const Rows second = epoch_of(batches, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch_of(batches, 0), first);
  EXPECT_EQ(epoch_of(Batches(1797, 100, true, 42), 0), first) << "whatever the size of a batch";
  EXPECT_NE(epoch_of(Batches(1797, 64, true, 43), 0), first);
}

// Nodes of different versions take part in one run: a change here would have them train on wrong pairs.
TEST(Batches, NumbersStayTheSameFromVersionToVersion) {
  EXPECT_EQ(Batches(10, 10, true, 42).rows(0, 0), (Rows{4, 2, 9, 3, 1, 6, 8, 5, 0, 7}));
  EXPECT_EQ(Batches(1797, 4, true, 1).rows(2, 3), (Rows{1744, 1052, 41, 938}));
}

TEST(Batches, ShufflesFavourNoPlaceAndNoNeighbours) {
  constexpr int kSamples = 10;
  constexpr int kEpochs = 10'000;
  std::vector<std::vector<int>> places(kSamples, std::vector<int>(kSamples));
  std::vector<std::vector<int>> neighbours = places;
  const Batches batches(kSamples, kSamples, true, 7);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Rows rows = batches.rows(epoch, 0);
    for (std::size_t i = 0; i < kSamples; ++i) ++places[i][static_cast<std::size_t>(rows[i])];
    ++neighbours[static_cast<std::size_t>(rows[0])][static_cast<std::size_t>(rows[1])];
  }
  for (std::size_t a = 0; a < kSamples; ++a) {
    for (std::size_t b = 0; b < kSamples; ++b) {
      EXPECT_NEAR(places[a][b], 1000, 150) << a << " " << b;  // five standard deviations
      EXPECT_NEAR(neighbours[a][b], a == b ? 0 : 111, 53) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace ravnest::data
