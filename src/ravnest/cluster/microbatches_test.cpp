#include "ravnest/cluster/microbatches.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::cluster {
namespace {

const stage::Offer kBatch{.batch = 5, .update = true, .epoch = 1, .index = 2, .digest = 3};

TEST(Microbatches, CoverTheBatchAndUpdateOnce) {
  const at::Tensor rows = at::arange(7).reshape({7, 1});
  const auto cut = cut_batch(kBatch, {rows}, 3);
  ASSERT_EQ(cut.size(), 3U);
  std::vector<at::Tensor> pieces;
  double weight = 0;
  for (std::uint32_t part = 0; part < 3; ++part) {
    const stage::Offer& offer = cut[part].offer;
    EXPECT_EQ(offer.part, part);
    EXPECT_EQ(offer.parts, 3U);
    EXPECT_EQ(offer.update, part == 2);
    EXPECT_EQ(offer.samples, static_cast<std::uint64_t>(cut[part].inputs[0].size(0)));
    EXPECT_EQ(offer.index, kBatch.index);
    weight += offer.weight;
    pieces.push_back(cut[part].inputs[0]);
  }
  EXPECT_DOUBLE_EQ(weight, 1);
  EXPECT_TRUE(at::equal(at::cat(pieces), rows));
  EXPECT_EQ(pieces[0].size(0), 3);
}

TEST(Microbatches, InputsWithoutARowPerSampleGoWithEveryPart) {
  const at::Tensor table = at::ones({3, 2});
  const auto cut = cut_batch(kBatch, {at::ones({4, 2}), table, at::Tensor(), at::ones({})}, 2);
  ASSERT_EQ(cut.size(), 2U);
  for (const Microbatch& each : cut) {
    EXPECT_EQ(each.inputs[0].size(0), 2);
    EXPECT_TRUE(each.inputs[1].is_same(table));
    EXPECT_FALSE(each.inputs[2].defined());
  }
}

TEST(Microbatches, AreNoMoreThanThereAreRows) {
  EXPECT_EQ(cut_batch(kBatch, {at::ones({2, 2})}, 4).size(), 2U);
  EXPECT_EQ(cut_batch(kBatch, {at::ones({0, 2})}, 4).size(), 1U);
}

TEST(Microbatches, OnlyTrainingIsCut) {
  stage::Offer batch = kBatch;
  batch.kind = wire::PassKind::kValidate;
  batch.update = false;
  const auto cut = cut_batch(batch, {at::ones({4, 2})}, 2);
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].offer.weight, 1);
  EXPECT_FALSE(cut[0].offer.update);
}

}  // namespace
}  // namespace ravnest::cluster
