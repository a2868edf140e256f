#include "ravnest/strategy/communicate/texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "ravnest/strategy/communicate/alone.h"

namespace ravnest::strategy {
namespace {

// One of two ranks, of which the other says that its text has so many bytes, and sends nothing.
class WithALiar final : public Communicator {
 public:
  explicit WithALiar(std::int64_t claim) : claim_(claim) {}
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::shared_ptr<Pending> all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) override {
    return alone_.all_reduce(std::move(values), std::move(compression));
  }
  std::shared_ptr<Pending> reduce_scatter(at::Tensor values, std::shared_ptr<Compression> compression) override {
    return alone_.reduce_scatter(std::move(values), std::move(compression));
  }
  std::shared_ptr<Pending> all_gather(at::Tensor values) override { return alone_.all_gather(std::move(values)); }
  std::shared_ptr<Pending> broadcast(at::Tensor values, int root) override {
    return alone_.broadcast(std::move(values), root);
  }
  std::shared_ptr<Pending> sum(std::span<double> values) override { return alone_.sum(values); }
  std::shared_ptr<Pending> sum(std::span<std::int64_t> values) override {
    values[1] = claim_;
    return alone_.sum(values);
  }
  void abort(const Status& why) override { alone_.abort(why); }

 private:
  AloneCommunicator alone_;
  std::int64_t claim_;
};

Status heard_of(std::int64_t claim) {
  WithALiar communicator(claim);
  return gather_texts(communicator, "own", at::kCPU, [](Pending& pending) { return pending.wait(); }).status();
}

TEST(Texts, NoRoomIsMadeForATextThatIsOnlySaidToBeLong) {
  EXPECT_TRUE(heard_of(0).ok());
  EXPECT_TRUE(heard_of(kLongestText).ok());
  for (const std::int64_t claim : {kLongestText + 1, std::int64_t{1} << 40, std::int64_t{-1}})
    EXPECT_THAT(heard_of(claim).message(), ::testing::StartsWith("rank 1 has a text of ")) << claim;
}

}  // namespace
}  // namespace ravnest::strategy
