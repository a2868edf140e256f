#include "ravnest/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ravnest/optim/callback.h"

namespace ravnest::optim {
namespace {

using testing::HasSubstr;

std::unique_ptr<Optimizer> make(std::string_view name, const Options& options = {},
                                std::vector<ParameterGroup> groups = {}) {
  return std::move(make_optimizer(name, options, std::move(groups))).value();
}

TEST(Optimizer, StateFollowsTheParameterIntoOtherMemory) {
  const at::Tensor gradient = at::ones({3});
  const std::unique_ptr<Optimizer> one = make("adam");
  const std::unique_ptr<Optimizer> other = make("adam");
  at::Tensor kept = at::ones({3});
  at::Tensor moved = at::ones({3});
  for (int i = 0; i < 5; ++i) {
    one->step({{kept}}, {{gradient}});
    moved = moved.clone();
    other->step({{moved}}, {{gradient}});
  }
  EXPECT_TRUE(kept.equal(moved));
}

TEST(Optimizer, AParameterThatRequiresGradIsUpdatedWithoutARecord) {
  at::Tensor parameter = at::ones({3}).requires_grad_();
  make("sgd")->step({{parameter}}, {{at::ones({3})}});
  EXPECT_TRUE(parameter.is_leaf());
  EXPECT_NEAR(parameter[0].item<double>(), 0.999, 1e-6);
}

TEST(Optimizer, EveryUpdateRaisesTheParametersVersionSoThatAutogradNotices) {
  for (const std::string_view name : optimizer_names()) {
    at::Tensor parameter = at::ones({64});
    const auto before = parameter._version();
    make(name)->step({{parameter}}, {{at::ones({64})}});
    EXPECT_GT(parameter._version(), before) << name;
  }
}

TEST(Optimizer, FusedOperatorsGetAGradientInTheParametersLayout) {
  for (const std::string_view name : {"sgd", "adam", "adamw", "adagrad"}) {
    const at::Tensor start = at::randn({6, 4});
    const at::Tensor gradient = at::randn({6, 4});
    at::Tensor straight = start.clone();
    at::Tensor turned = start.t().clone().t();  // dense, but in another order than its gradient
    at::Tensor sparse = at::zeros({6, 8}).slice(1, 0, 8, 2).copy_(start);  // with gaps
    const auto one = make(name, {{"fused", true}});
    const auto two = make(name, {{"fused", true}});
    const auto three = make(name, {{"fused", true}});
    for (int i = 0; i < 3; ++i) {
      one->step({{straight}}, {{gradient}});
      two->step({{turned}}, {{gradient}});
      three->step({{sparse}}, {{gradient}});
    }
    EXPECT_TRUE(straight.equal(turned)) << name;
    EXPECT_TRUE(straight.equal(sparse)) << name;
  }
}

TEST(Optimizer, TheResultIsTheSameForAnyNumberOfThreads) {
  const at::Tensor start = at::randn({100'003});
  const at::Tensor gradient = at::randn({100'003});
  for (const std::string_view name : optimizer_names()) {
    std::vector<at::Tensor> results;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      const auto optimizer = make(name);
      results.push_back(start.clone());
      for (int i = 0; i < 3; ++i) optimizer->step({{results.back()}}, {{gradient}});
    }
    EXPECT_TRUE(results[0].equal(results[1])) << name;
  }
}

TEST(Optimizer, AGradientInAnotherLayoutGivesWhatOneInTheParametersDoes) {
  // One goes by the kernels, the other by torch's operators.
  const at::Tensor start = at::randn({70, 300});
  const at::Tensor gradient = at::randn({70, 300});
  for (const std::string_view name : optimizer_names()) {
    at::Tensor alike = start.clone();
    at::Tensor unlike = start.clone();
    const auto one = make(name);
    const auto other = make(name);
    for (int i = 0; i < 3; ++i) {
      one->step({{alike}}, {{gradient}});
      other->step({{unlike}}, {{gradient.t().contiguous().t()}});
    }
    EXPECT_TRUE(name == "LAMB" ? alike.allclose(unlike, 1e-5, 1e-6) : alike.equal(unlike)) << name;
  }
}

TEST(Optimizer, AGradientOfOtherSizesIsRefused) {
  EXPECT_THROW(make("sgd")->step({{at::ones({3})}}, {{at::ones({4})}}), c10::Error);
}

TEST(Optimizer, ComplexParametersAndSparseGradientsAreRefused) {
  const at::Tensor complex = at::ones({3}, at::kComplexFloat);
  EXPECT_THROW(make("adam")->step({{complex}}, {{complex}}), c10::Error);
  EXPECT_THROW(make("adam")->step({{at::ones({3})}}, {{at::ones({3}).to_sparse()}}), c10::Error);
}

TEST(Optimizer, AnUnknownNameIsAnsweredWithThoseThatExist) {
  const Status status = make_optimizer("adamm", {}).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("SGD, Adam, AdamW, NAdam, RMSprop, Adagrad and LAMB"));
}

TEST(Optimizer, SenselessOptionsAreRefusedWithASentence) {
  const auto refusal = [](std::string_view name, const Options& options) {
    const Status status = make_optimizer(name, options).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    return status.message();
  };
  EXPECT_EQ(refusal("sgd", {{"nesterov", true}}), "SGD: nesterov needs a momentum above 0, and no dampening");
  EXPECT_EQ(refusal("sgd", {{"lr", -1.0}}), "SGD: lr has to be at least 0, not -1");
  EXPECT_EQ(refusal("adam", {{"betas", std::vector<double>{0.9, 1.0}}}),
            "Adam: betas has to be from 0 to below 1, not [0.9, 1]");
  EXPECT_EQ(refusal("adam", {{"betas", 0.9}}), "Adam: betas has to be 2 numbers, not 0.9");
  EXPECT_EQ(refusal("adam", {{"lr", std::string("fast")}}), "Adam: lr has to be a number, not \"fast\"");
  EXPECT_THAT(refusal("rmsprop", {{"fused", true}}), HasSubstr("RMSprop has no option fused; it has lr, alpha"));
  EXPECT_THAT(refusal("adam", {{"lr", std::nan("")}}), HasSubstr("has to be at least 0"));
}

TEST(Optimizer, AWholeNumberPassesAsANumber) {
  EXPECT_EQ(number(make("sgd", {{"lr", std::int64_t{1}}})->groups()[0].options, "lr"), 1.0);
}

TEST(Optimizer, AParameterInTwoGroupsIsRefused) {
  const Status status = make_optimizer("sgd", {}, {{{}, {0, 1}}, {{}, {1}}}).status();
  EXPECT_EQ(status.message(), "SGD: parameter 1 is there twice");
}

TEST(Optimizer, AStateOfOtherParametersIsRefusedAndChangesNothing) {
  const auto from = make("adam", {{"lr", 0.5}});
  from->step({{at::ones({3})}}, {{at::ones({3})}});
  const auto to = make("adam");
  const at::Tensor parameter = at::ones({4});
  EXPECT_EQ(to->load({{parameter}}, from->state()).message(),
            "parameter 0: exp_avg of the state has sizes [3], its parameter [4]");
  EXPECT_EQ(number(to->groups()[0].options, "lr"), 1e-3);
  EXPECT_TRUE(to->groups()[0].parameters.empty());
  EXPECT_THAT(make("sgd")->load({{at::ones({3})}}, from->state()).message(), HasSubstr("keeps nothing called"));
}

TEST(Optimizer, LoadingTakesACopyAndGoesOnAsBefore) {
  at::Tensor parameter = at::ones({3});
  const at::Tensor gradient = at::ones({3});
  const auto first = make("adam");
  first->step({{parameter}}, {{gradient}});
  at::Tensor copy = parameter.clone();
  const auto second = make("adam");
  ASSERT_TRUE(second->load({{copy}}, first->state()).ok());
  for (int i = 0; i < 3; ++i) first->step({{parameter}}, {{gradient}});
  for (int i = 0; i < 3; ++i) second->step({{copy}}, {{gradient}});
  EXPECT_TRUE(copy.equal(parameter));
}

TEST(CallbackOptimizer, GetsTheGroupsAsAScheduleLeftThem) {
  double lr = 0;
  CallbackOptimizer optimizer(
      "mine", {{{{"lr", 1.0}}, {0}}},
      {.step = [&](std::span<const ParameterGroup> groups, auto, auto) { lr = number(groups[0].options, "lr"); }});
  optimizer.groups()[0].options["lr"] = 0.25;
  optimizer.step({}, {});
  EXPECT_EQ(lr, 0.25);
}

TEST(CallbackOptimizer, WhatItThrowsPassesThrough) {
  CallbackOptimizer optimizer("mine", {}, {.step = [](auto, auto, auto) { throw std::runtime_error("no"); }});
  EXPECT_THROW(optimizer.step({}, {}), std::runtime_error);
}

}  // namespace
}  // namespace ravnest::optim
