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

TEST(Shares, AreEveryNthPlaceOfTheWholeOrder) {
  EXPECT_EQ(Batches(7, 2, false, 0, {1, 3}).rows(0, 0), (Rows{1, 4}));
  EXPECT_EQ(Batches(7, 2, false, 0, {0, 3}).rows(0, 1), Rows{6});
  const Rows whole = epoch_of(Batches(1797, 64, true, 42), 5);
  const Rows share = epoch_of(Batches(1797, 10, true, 42, {2, 4}), 5);
  ASSERT_EQ(share.size(), 449U);
  for (std::size_t i = 0; i < share.size(); ++i) EXPECT_EQ(share[i], whole[2 + 4 * i]) << i;
}

TEST(Shares, HaveEachSampleOnceBetweenThemAndDifferByAtMostOne) {
  for (const std::int64_t samples : {0, 1, 2, 3, 7, 16, 65, 1797}) {
    for (const std::int64_t parts : {1, 2, 3, 7, 64}) {
      Rows rows;
      for (std::int64_t part = 0; part < parts; ++part) {
        const Rows own = epoch_of(Batches(samples, 5, true, 42, {part, parts}), 3);
        EXPECT_GE(own.size(), static_cast<std::size_t>(samples / parts));
        EXPECT_LE(own.size(), static_cast<std::size_t>((samples + parts - 1) / parts));
        rows.insert(rows.end(), own.begin(), own.end());
      }
      std::ranges::sort(rows);
      Rows expected(static_cast<std::size_t>(samples));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(rows, expected) << samples << " samples in " << parts << " parts";
    }
  }
}

TEST(Shares, HaveOtherSamplesInEachEpochWhereTheyAreShuffled) {
  const auto members = [](bool shuffle, std::uint64_t epoch) {
    Rows rows = epoch_of(Batches(1000, 64, shuffle, 42, {1, 2}), epoch);
    std::ranges::sort(rows);
    return rows;
  };
  EXPECT_NE(members(true, 0), members(true, 1));
  EXPECT_EQ(members(false, 0), members(false, 1));
}

TEST(Shares, BatchesOfAnEpochAreThoseOfTheShare) {
  EXPECT_EQ(Batches(9, 2, false, 0, {0, 2}).per_epoch(), 3);
  EXPECT_EQ(Batches(9, 2, false, 0, {1, 2}).per_epoch(), 2);
  EXPECT_EQ(Batches(9, 2, false, 0, {1, 2}).rows(0, 2), Rows());
  EXPECT_EQ(Batches(1, 2, false, 0, {1, 2}).per_epoch(), 0);
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
