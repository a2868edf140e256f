#include "ravnest/worker/snapshots.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "ravnest/checkpoint/state/part_state.h"
#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::worker {
namespace {

using ::testing::ElementsAre;

constexpr int kKeeper = 0;

// A stage with one weight, which another one keeps.
class SnapshotsTest : public ::testing::Test {
 protected:
  static ir::Model model() {
    ir::testing::ModelBuilder builder;
    const ir::Ref weight = builder.parameter("weight", {2, 2}, {1, 2, 3, 4});
    const ir::testing::Sizes rows = {ir::testing::dynamic("s0"), ir::testing::fixed(2)};
    return builder.returns({builder.call("y", "torch.ops.aten.linear.default",
                                         {{"input", builder.input("x", rows)}, {"weight", weight}}, rows)});
  }

  void adopt(std::uint64_t updates, float value) {
    store_.prepare();
    store_.parameters()[0].variable_data().fill_(value);
    store_.publish();
    snapshots_.adopted(kKeeper, updates, std::array<std::size_t, 1>{0}, store_);
  }
  void take(std::uint64_t updates) { snapshots_.take(updates, updates, store_, nullptr, {}, /*tied_follow=*/true); }
  static float weight_of(const Snapshot& snapshot) {
    return checkpoint::tensor_of(snapshot.part.weights.at(0).second)->mean().item<float>();
  }

  const graph::Engine engine_ = graph::Engine::create(model()).value();
  optim::ParameterStore store_{engine_.tensors()};
  std::vector<float> taken_;
  Snapshots snapshots_{
      engine_, store_, {kKeeper}, {}, [this](const Snapshot& snapshot) { taken_.push_back(weight_of(snapshot)); }};
};

TEST_F(SnapshotsTest, WaitForTheValuesOfTiedWeightsOfTheirUpdate) {
  take(1);
  EXPECT_THAT(taken_, ElementsAre());
  adopt(1, 10);
  EXPECT_THAT(taken_, ElementsAre(10));
}

TEST_F(SnapshotsTest, DoNotWaitForValuesThatCameBeforeTheUpdate) {
  adopt(1, 10);
  take(1);
  EXPECT_THAT(taken_, ElementsAre(10));
  take(2);
  EXPECT_THAT(taken_, ElementsAre(10)) << "those of the update before are too old";
  adopt(2, 20);
  EXPECT_THAT(taken_, ElementsAre(10, 20));
}

}  // namespace
}  // namespace ravnest::worker
