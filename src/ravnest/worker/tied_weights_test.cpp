// Weights that several stages use, as workers tell each other of them.
#include "ravnest/worker/tied_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/worker/testing/chain.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::worker {
namespace {

using stage::Schedule;
using testing::Chain;
using ::testing::HasSubstr;
using testing::training_pass;
using testing::Whole;
using testing::with_criterion;

// An embedding whose weight is the head's, too.
ir::Model tied() { return ir::read_archive(ir::testing::golden("tied")).value(); }

at::Tensor tokens(std::uint64_t step) {
  return (at::arange(15) * static_cast<std::int64_t>(step + 2)).remainder(6).view({3, 5});
}

wire::TiedTensors of_embedding(bool gradients, std::uint32_t sender, const at::Tensor& tensor,
                               const std::string& name = "embed.weight") {
  return {gradients, 0, sender, {{name, to_wire(tensor, {}, true)}}};
}

class Tied : public ::testing::TestWithParam<Schedule> {};

TEST_P(Tied, TheKeeperAddsUpTheGradientsOfAllAndHandsItsValuesOn) {
  Whole whole(tied());
  ModelWorkerOptions options = with_criterion();
  options.schedule = GetParam();
  Chain chain(tied(), {1}, options);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const double loss = whole.train(step, {tokens(step)});
    chain.train(step, {tokens(step)});
    EXPECT_EQ(chain.report().loss, loss) << "step " << step;
  }
  for (int stage = 0; stage < 2; ++stage) {
    testing::TensorsByName own;
    testing::add_tensors(chain.engine(stage), own);
    EXPECT_TRUE(at::equal(own.at("embed.weight"), whole.tensors().at("embed.weight"))) << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(EachSchedule, Tied, ::testing::Values(Schedule::kAsync, Schedule::kSync),
                         [](const auto& each) { return each.param == Schedule::kAsync ? "Async" : "Sync"; });

TEST(TiedWeights, AValueThatComesWhileAPassIsInFlightIsAVersionOfItsOwn) {
  Chain chain(tied(), {1}, with_criterion());
  ASSERT_TRUE(chain.forward(training_pass(0), {tokens(0)}).ok());
  ASSERT_TRUE(chain.worker(1).adopt(of_embedding(false, 0, at::full({6, 4}, 0.5))).ok());
  EXPECT_EQ(chain.worker(1).versions_most(), 2U);
  ASSERT_TRUE(chain.backward(training_pass(0)).ok()) << "autograd still has what it saved";
  EXPECT_EQ(chain.worker(1).store().alive(), 1U);
  EXPECT_TRUE(at::equal(chain.worker(1).store().newest()->parameters[0], at::full({6, 4}, 0.5)));
}

TEST(TiedWeights, WhatDoesNotFitIsRefused) {
  Chain chain(tied(), {1}, with_criterion());
  const at::Tensor weight = at::zeros({6, 4});
  EXPECT_THAT(chain.worker(1).adopt(of_embedding(false, 1, weight)).message(),
              HasSubstr("stage 1 sent values of \"embed.weight\", which it does not keep"));
  EXPECT_THAT(chain.worker(1).adopt(of_embedding(false, 0, weight, "shift")).message(),
              HasSubstr("stage 0 sent values of \"shift\", which it does not keep"));
  EXPECT_THAT(chain.worker(1).adopt(of_embedding(false, 0, at::zeros({4}))).message(),
              HasSubstr("stage 0 sent \"embed.weight\" in sizes [4], here they are [6, 4]"));
  EXPECT_THAT(chain.worker(0).update({}, {of_embedding(true, 1, at::zeros({6, 1}))}).status().message(),
              HasSubstr("stage 1 sent a gradient of \"embed.weight\" in sizes [6, 1], here they are [6, 4]"));
  EXPECT_THAT(chain.worker(1).update({}, {of_embedding(true, 0, weight)}).status().message(),
              HasSubstr("stage 0 sent a gradient of \"embed.weight\", which is not kept here"));
}

}  // namespace
}  // namespace ravnest::worker
