#include "ravnest/train/loop/leaf_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ravnest::train {
namespace {

using ::testing::HasSubstr;

// Epochs of so many items each; the digest of an item is 100 * epoch + its number + 1.
class Numbers final : public LabelSource {
 public:
  explicit Numbers(std::vector<std::uint64_t> sizes) : sizes_(std::move(sizes)) {}

  Status begin(std::uint64_t epoch) override {
    epoch_ = epoch;
    taken_ = 0;
    return {};
  }
  Result<std::optional<std::uint64_t>> next() override {
    if (taken_ == sizes_.at(epoch_)) return std::optional<std::uint64_t>();
    ++taken_;
    return std::optional(digest());
  }
  Status skip(std::uint64_t items) override {
    skipped += items;
    taken_ = std::min(items, sizes_.at(epoch_));
    return {};
  }
  std::uint64_t skipped = 0;
  std::uint64_t digest() const { return 100 * epoch_ + taken_; }  // of the item at hand

 private:
  std::vector<std::uint64_t> sizes_;
  std::uint64_t epoch_ = 0;
  std::uint64_t taken_ = 0;
};

LeafLabels labels() { return LeafLabels({"node_2", "node_0", "the same files", ", and more"}); }

TEST(LeafLabels, AreFoundInTheOrderOfThePasses) {
  Numbers source({3, 3});
  LeafLabels own = labels();
  for (const std::uint64_t epoch : {0, 1}) {
    for (const std::uint64_t index : {0, 0, 2}) {  // the parts of a batch ask again; one may be left out
      ASSERT_TRUE(own.go_to(source, epoch, index, 100 * epoch + index + 1).ok());
      EXPECT_EQ(source.digest(), 100 * epoch + index + 1);
    }
  }
}

TEST(LeafLabels, OfARunThatGoesOnInTheMiddleOfAnEpochAreNotGoneThroughOneByOne) {
  Numbers source({9});
  LeafLabels own = labels();
  ASSERT_TRUE(own.go_to(source, 0, 7, 8).ok());
  EXPECT_EQ(source.skipped, 7U);
  ASSERT_TRUE(own.go_to(source, 0, 8, 9).ok());
  EXPECT_THAT(own.go_to(source, 0, 9, 0).message(), HasSubstr("end after 9 batches"));
  LeafLabels other = labels();
  EXPECT_THAT(other.go_to(source, 0, 12, 0).message(), HasSubstr("end after at most 12 batches"));
}

TEST(LeafLabels, OthersThanTheRootsEndTheRun) {
  Numbers source({3});
  LeafLabels own = labels();
  EXPECT_EQ(own.go_to(source, 0, 1, 7).message(),
            "the labels of node_2 for batch 1 of epoch 0 are not those of node_0: both need the same data in the same "
            "order (the same files)");
}

TEST(LeafLabels, AreNotComparedWhereThereIsNothingToCompare) {
  Numbers source({3});
  LeafLabels own = labels();
  EXPECT_TRUE(own.go_to(source, 0, 1, 0).ok());
}

TEST(LeafLabels, ThatEndTooEarlyAreToldFromThoseThatComeOnce) {
  Numbers short_epochs({2, 1});
  LeafLabels few = labels();
  ASSERT_TRUE(few.go_to(short_epochs, 0, 0, 0).ok());
  EXPECT_EQ(few.go_to(short_epochs, 0, 2, 0).message(),
            "the labels of node_2 end after 2 batches, but node_0 sent batch 2 of epoch 0: both need the same data, "
            "and more");
  Numbers once({2, 0});
  LeafLabels own = labels();
  ASSERT_TRUE(own.go_to(once, 0, 0, 0).ok());
  ASSERT_TRUE(own.go_to(once, 0, 1, 0).ok());
  EXPECT_THAT(own.go_to(once, 1, 0, 0).message(),
              HasSubstr("gave 2 batches before and none for batch 0 of epoch 1: they can be iterated only once"));
}

}  // namespace
}  // namespace ravnest::train
