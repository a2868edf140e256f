#include "ravnest/train/loop/batch_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::train {
namespace {

using ::testing::HasSubstr;

TEST(BatchCounts, AsManyOrMoreThanBeforeIsNotWorthALine) {
  BatchCounts counts("train_loader", "epoch");
  for (const std::uint64_t batches : {3, 3, 7}) EXPECT_EQ(counts.ended(1, batches).value(), std::nullopt);
}

TEST(BatchCounts, FewerThanTheTimeBeforeAreSaid) {
  BatchCounts counts("the training loop", "epoch");
  ASSERT_TRUE(counts.ended(1, 7).ok());
  EXPECT_EQ(counts.ended(2, 1).value(), "the training loop gave 1 batch in epoch 2, and 7 batches in epoch 1");
  EXPECT_EQ(counts.ended(3, 1).value(), std::nullopt) << "once is enough";
}

TEST(BatchCounts, NoneAtAllIsAFailureThatSaysWhy) {
  BatchCounts never("val_loader", "validation");
  EXPECT_EQ(never.ended(1, 0).status().message(), text("val_loader gave no batch in validation 1: ", kWhyEmpty));
  BatchCounts once("train_loader", "epoch");
  ASSERT_TRUE(once.ended(1, 7).ok());
  const Status failed = once.ended(2, 0).status();
  EXPECT_EQ(failed.code(), Code::kInvalid);
  EXPECT_THAT(failed.message(), HasSubstr("no batch in epoch 2, after 7 batches in epoch 1: it can be iterated only"));
}

}  // namespace
}  // namespace ravnest::train
