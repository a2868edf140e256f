#include "ravnest/strategy/ddp.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/strategy/testing/ddp_ranks.h"
#include "ravnest/worker/testing/layers.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::strategy {
namespace {

using at::Tensor;
using ir::testing::golden;
using ::testing::HasSubstr;
using worker::testing::Whole;

// What one process makes of the same: the ranks' batches one after the other, then an update.
void train_whole(Whole& whole, std::uint64_t step, const Batches& batches) {
  std::vector<Tensor> sums;
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    if (!batches[rank].defined()) continue;
    const double weight = weight_of(batches, rank);
    const Tensor loss = whole.loss(step * batches.size() + rank, {batches[rank]});
    const std::vector<Tensor> own = whole.gradients(weight == 1 ? loss : loss * weight);
    if (sums.empty()) {
      sums = own;
      continue;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (own[i].defined()) sums[i] = sums[i] + own[i];
    }
  }
  whole.step(sums);
}

// Twenty steps; the last of them is short, and has nothing for the last rank.
void expect_as_one_process(int world, const ir::Model& model, const std::vector<int>& cuts,
                           const std::function<Tensor()>& batch, double tolerance = 0) {
  std::vector<Batches> all = steps(static_cast<std::size_t>(world), batch);
  all.back()[0] = all.back()[0].slice(0, 0, 2);
  all.back().back() = Tensor();
  Whole whole(model);
  for (std::size_t step = 0; step < all.size(); ++step) train_whole(whole, step, all[step]);
  on_ranks(world, model, cuts, with_criterion(), [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    for (std::size_t step = 0; step < all.size(); ++step) {
      const Tensor& batch_here = all[step][rank];
      const double weight = batch_here.defined() ? weight_of(all[step], rank) : 0;
      const wire::PassHead head = head_of(step, rank, all[step].size(), weight);
      const auto loss = batch_here.defined() ? own.ddp.train(head, {batch_here}) : own.ddp.absent(head);
      ASSERT_TRUE(loss.ok()) << loss.status();
    }
    expect_parameters(own.engine, whole.engine(), tolerance);
  });
}

std::vector<int> all_cuts(const ir::Model& model) {
  std::vector<int> positions(model.train.operators.size() - 1);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int>(i) + 1;
  return graph::allowed_together(model, positions).value();
}

TEST(Ddp, TwoRanksHaveTheParametersOfOneProcessToTheBit) {
  const ir::Model layers = worker::testing::layers();
  expect_as_one_process(2, layers, {}, [] { return at::randn({5, 2}); });
  expect_as_one_process(2, layers, {1, 2}, [] { return at::randn({5, 2}); });
}

TEST(Ddp, DropoutAndATiedWeightAreThoseOfOneProcess) {
  const ir::Model tied = ir::read_archive(golden("tied")).value();
  expect_as_one_process(2, tied, all_cuts(tied), [] { return at::randint(0, 6, {4, 5}); });
  const ir::Model normalised = ir::read_archive(golden("normalised")).value();
  expect_as_one_process(2, normalised, all_cuts(normalised), [] { return at::randn({6, 4}); });
}

TEST(Ddp, FourRanksHaveTheParametersOfOneProcessWithinRounding) {
  expect_as_one_process(
      4, worker::testing::layers(), {2},
      [] {
        return at::randn({5, 2});
      },
      1e-6);
}

TEST(Ddp, AllRanksBeginWithRank0sTensorsAndEndAlike) {
  const ir::Model model = ir::read_archive(golden("normalised")).value();
  std::vector<std::vector<Tensor>> after(3);
  on_ranks(3, model, {}, with_criterion(), [&](std::size_t rank, OfRank& own) {
    if (rank > 0) {
      const at::NoGradGuard without_record;
      for (const Tensor& tensor : own.engine.tensors()) tensor.add_(static_cast<std::int64_t>(rank));
    }
    ASSERT_EQ(own.ddp.begin(), Status());
    at::Generator generator = at::detail::createCPUGenerator(rank);
    for (std::size_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(own.ddp.train(head_of(step, rank, 3, 1.0 / 3), {at::randn({6, 4}, generator)}).ok());
    }
    for (const Tensor& tensor : own.engine.tensors()) after[rank].push_back(tensor.detach().clone());
  });
  for (std::size_t i = 0; i < after[0].size(); ++i) {
    EXPECT_TRUE(at::equal(after[0][i], after[1][i])) << i << ": parameters, and buffers that training writes";
    EXPECT_TRUE(at::equal(after[0][i], after[2][i])) << i;
  }
}

TEST(Ddp, BuffersStayEachRanksOwnWhereThatIsAskedFor) {
  const ir::Model model = ir::read_archive(golden("normalised")).value();
  DdpOptions options = with_criterion();
  options.broadcast_buffers = false;
  std::vector<Tensor> means(2);
  on_ranks(2, model, {}, options, [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    const Tensor batch = at::full({6, 4}, static_cast<double>(rank)) + at::arange(24).view({6, 4}) / 7.0;
    ASSERT_TRUE(own.ddp.train(head_of(0, rank, 2, 0.5), {batch}).ok());
    means[rank] = own.engine.tensors()[own.engine.written_buffers().front()].clone();
  });
  EXPECT_FALSE(at::equal(means[0], means[1]));
}

TEST(Ddp, GradientsAddUpUntilThePassThatUpdates) {
  const ir::Model model = worker::testing::layers();
  const std::vector<Batches> all = steps(2, [] { return at::randn({5, 2}); });
  Whole whole(model);
  for (std::size_t update = 0; update < 10; ++update) {
    std::vector<Tensor> sums;
    for (std::size_t rank = 0; rank < 2; ++rank) {  // each rank adds up its own first
      std::vector<Tensor> own;
      for (std::size_t pass = 2 * update; pass < 2 * update + 2; ++pass) {
        const std::vector<Tensor> now = whole.gradients(whole.loss(pass * 2 + rank, {all[pass][rank]}) * 0.5);
        for (std::size_t i = 0; i < now.size(); ++i)
          if (own.size() <= i)
            own.push_back(now[i]);
          else
            own[i] = own[i] + now[i];
      }
      for (std::size_t i = 0; i < own.size(); ++i)
        if (sums.size() <= i)
          sums.push_back(own[i]);
        else
          sums[i] = sums[i] + own[i];
    }
    whole.step(sums);
  }
  on_ranks(2, model, {1}, with_criterion(), [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    for (std::size_t pass = 0; pass < all.size(); ++pass)
      ASSERT_TRUE(own.ddp.train(head_of(pass, rank, 2, 0.5, pass % 2 == 1), {all[pass][rank]}).ok());
    EXPECT_EQ(own.ddp.updates(), 10U);
    expect_parameters(own.engine, whole.engine());
  });
}

TEST(Ddp, TheLossOfAPassIsThatOfAllRanksAndTellsWhoseIsNotFinite) {
  on_ranks(2, worker::testing::layers(), {}, with_criterion(), [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    const Tensor batch = at::ones({4, 2}) * static_cast<double>(rank + 1);
    Whole whole(worker::testing::layers());
    double expected = 0;
    for (std::uint64_t other = 0; other < 2; ++other)
      expected += 0.5 * whole.loss(other, {at::ones({4, 2}) * static_cast<double>(other + 1)}).item<double>();
    const auto shared = own.ddp.train(head_of(0, rank, 2, 0.5), {batch});
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_DOUBLE_EQ(shared->values(TimePoint::max()).value()[0], expected);
    const auto bad = own.ddp.train(head_of(1, rank, 2, 0.5), {rank == 1 ? batch / 0 : batch});
    ASSERT_TRUE(bad.ok()) << bad.status();
    EXPECT_EQ(bad->values(TimePoint::max()).value()[1], 0);
    EXPECT_EQ(bad->values(TimePoint::max()).value()[2], 1);
  });
}

// Two weights, each behind an output of its own.
ir::Model two_outputs() {
  using ir::Ref;
  ir::testing::ModelBuilder builder;
  const ir::testing::Sizes sizes = {ir::testing::dynamic("s0"), ir::testing::fixed(2)};
  const Ref w = builder.parameter("left.w", {2, 2}, {1, -2, 3, 4});
  const Ref v = builder.parameter("right.w", {2, 2}, {2, 1, -1, 1});
  const Ref x = builder.input("x", sizes);
  const Ref left = builder.call("a", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, sizes);
  const Ref right = builder.call("b", "torch.ops.aten.linear.default", {{"input", x}, {"weight", v}}, sizes);
  return builder.returns({left, right});
}

DdpOptions with_loss_on_output(const std::function<std::size_t(const wire::PassHead&)>& which) {
  DdpOptions options;
  options.criterion = [which](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    return worker::CriterionResult{outputs.at(which(head)).toTensor().square().mean(), 4, 0};
  };
  return options;
}

TEST(Ddp, AParameterThatNoLossReachesStaysAsItIs) {
  const DdpOptions options = with_loss_on_output([](const wire::PassHead&) { return 1; });
  on_ranks(2, two_outputs(), {}, options, [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    const Tensor before = own.engine.tensors()[0].detach().clone();
    ASSERT_TRUE(own.ddp.train(head_of(0, rank, 2, 0.5), {at::ones({4, 2})}).ok());
    EXPECT_TRUE(at::equal(own.engine.tensors()[0], before));
    EXPECT_FALSE(own.ddp.optimizer()->state().tensors.at(1).empty());
    EXPECT_TRUE(own.ddp.optimizer()->state().tensors.at(0).empty()) << "an optimizer must not even decay it";
  });
}

TEST(Ddp, LossesThatReachOtherParametersOnAnotherRankAreRefused) {
  const DdpOptions options = with_loss_on_output([](const wire::PassHead& head) { return head.step % 2; });
  on_ranks(2, two_outputs(), {}, options, [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    EXPECT_THAT(own.ddp.train(head_of(0, rank, 2, 0.5), {at::ones({4, 2})}).status().message(),
                HasSubstr("the losses of 1 ranks reach the parameter left.w, those of 1 do not"));
  });
}

TEST(Ddp, ALossThatReachesOtherParametersThanTheFirstIsRefused) {
  const DdpOptions options = with_loss_on_output([](const wire::PassHead& head) { return head.batch; });
  on_ranks(2, two_outputs(), {}, options, [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    ASSERT_TRUE(own.ddp.train(head_of(0, rank, 2, 0.5), {at::ones({4, 2})}).ok());
    EXPECT_THAT(own.ddp.train(head_of(1, rank, 2, 0.5), {at::ones({4, 2})}).status().message(),
                HasSubstr("the loss of update 2 does not reach the parameter left.w, unlike that of the first"));
  });
}

}  // namespace
}  // namespace ravnest::strategy
