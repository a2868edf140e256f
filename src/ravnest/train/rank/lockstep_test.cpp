#include "ravnest/train/rank/lockstep.h"

#include <gtest/gtest.h>

#include <vector>

namespace ravnest::train {
namespace {

Told sum_of(const std::vector<Told>& all) {
  Told sum;
  for (const Told& each : all) {
    for (std::size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += each.numbers[i];
  }
  return sum;
}

TEST(Lockstep, RanksThatDoTheSameHaveTheirSamplesAddedUp) {
  const Told sum = sum_of({tells_batch_at(3, 7, 20), tells_batch_at(3, 7, 0), tells_batch_at(3, 7, 13)});
  EXPECT_EQ(check_same(sum, 3), Status());
  EXPECT_EQ(sum.samples(), 33);
  const Told end = sum_of({tells(Next::kSweepEnd, 20, 18), tells(Next::kSweepEnd, 10, 7)});
  EXPECT_EQ(check_same(end, 2), Status());
  EXPECT_EQ(end.samples(), 30);
  EXPECT_EQ(end.correct(), 25);
}

TEST(Lockstep, RanksThatDoDifferentThingsAllSayWhoDoesWhat) {
  EXPECT_EQ(check_same(sum_of({tells(Next::kBatch, 4), tells(Next::kCallEnd), tells(Next::kBatch, 4)}), 3),
            invalid("2 ranks feed a batch while one rank has ended its call: every rank has to do the same, with as "
                    "many batches; Trainer.train() sees to that by itself"));
}

TEST(Lockstep, RanksAtDifferentBatchesAreFound) {
  EXPECT_FALSE(check_same(sum_of({tells_batch_at(1, 0, 5), tells_batch_at(0, 1, 5)}), 2).ok());
  // One behind and one ahead have the sum of two that are where they should be.
  EXPECT_FALSE(check_same(sum_of({tells_batch_at(2, 4, 5), tells_batch_at(2, 6, 5), tells_batch_at(2, 5, 5)}), 3).ok());
}

}  // namespace
}  // namespace ravnest::train
