#include "ravnest/strategy/mixed_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <map>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/strategy/testing/ddp_ranks.h"
#include "ravnest/worker/testing/layers.h"

namespace ravnest::strategy {
namespace {

using at::Tensor;
using ir::testing::golden;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The policy as one would write it by hand: every weight of `cast` has a 16-bit copy, made for each pass; the ranks'
// gradients are added up in 32 bits.
class ByHand {
 public:
  ByHand(const ir::Model& model, at::ScalarType type, std::vector<std::string> cast, double scale = 1)
      : engine_(graph::Engine::create(model).value()), type_(type), cast_(std::move(cast)), scale_(scale) {
    for (const Tensor& tensor : engine_.tensors()) {
      const auto same = [&](const Tensor& known) { return known.is_same(tensor); };
      if (tensor.requires_grad() && std::ranges::none_of(parameters_, same)) parameters_.push_back(tensor);
    }
  }

  void train(std::uint64_t step, const Batches& batches) {
    std::vector<Tensor> sums(parameters_.size());
    for (std::size_t rank = 0; rank < batches.size(); ++rank) {
      const std::vector<Tensor> own = gradients(step * batches.size() + rank, batches[rank], weight_of(batches, rank));
      for (std::size_t i = 0; i < own.size(); ++i) sums[i] = sums[i].defined() ? sums[i] + own[i] : own[i];
    }
    for (Tensor& sum : sums) sum = sum / scale_;
    optimizer_->step(parameters_, sums);
  }

  const graph::Engine& engine() const { return engine_; }

 private:
  std::vector<Tensor> gradients(std::uint64_t key, const Tensor& batch, double weight) const {
    std::map<const void*, Tensor> copies;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < engine_.tensors().size(); ++i) {
      const Tensor& own = engine_.tensors()[i];
      const bool is_cast = std::ranges::count(cast_, engine_.names()[i]) > 0;
      Tensor& copy = copies[own.unsafeGetTensorImpl()];
      if (!copy.defined()) copy = is_cast ? own.detach().to(type_).set_requires_grad(own.requires_grad()) : own;
      tensors.push_back(copy);
    }
    graph::RunOptions options;
    options.random = graph::RandomKey{worker::testing::kSeed, key};
    options.any_floating_type = true;
    const Tensor input = batch.is_floating_point() ? batch.to(type_) : batch;
    const Tensor output = engine_.run(graph::Mode::kTrain, tensors, {input}, options).at(0).toTensor();
    std::vector<Tensor> leaves;
    for (const Tensor& parameter : parameters_) leaves.push_back(copies.at(parameter.unsafeGetTensorImpl()));
    std::vector<Tensor> found =
        torch::autograd::grad({worker::testing::loss_of(output.to(at::kFloat)) * (weight * scale_)}, leaves);
    for (Tensor& each : found) each = each.to(at::kFloat);
    return found;
  }

  graph::Engine engine_;
  std::unique_ptr<optim::Optimizer> optimizer_ = worker::testing::adam();
  std::vector<Tensor> parameters_;
  at::ScalarType type_;
  std::vector<std::string> cast_;
  double scale_;
};

DdpOptions in(Precision precision) {
  DdpOptions options = with_criterion();
  options.precision = precision;
  return options;
}

void expect_as_by_hand(int world, Precision precision, const ir::Model& model, const std::vector<int>& cuts,
                       const std::vector<std::string>& cast, const std::function<Tensor()>& batch) {
  const bool is_half = precision == Precision::kFp16;
  ByHand by_hand(model, is_half ? at::kHalf : at::kBFloat16, cast, is_half ? 65536 : 1);
  const std::vector<Batches> all = steps(static_cast<std::size_t>(world), batch);
  for (std::size_t step = 0; step < all.size(); ++step) by_hand.train(step, all[step]);
  on_ranks(world, model, cuts, in(precision), [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    for (std::size_t step = 0; step < all.size(); ++step) {
      const auto loss =
          own.ddp.train(head_of(step, rank, all[step].size(), weight_of(all[step], rank)), {all[step][rank]});
      ASSERT_TRUE(loss.ok()) << loss.status();
    }
    EXPECT_EQ(own.ddp.updates(), all.size());
    expect_parameters(own.engine, by_hand.engine());
  });
}

TEST(MixedPrecision, RanksHaveTheParametersOfThePolicyByHandToTheBit) {
  const ir::Model layers = worker::testing::layers();
  const std::vector<std::string> cast = {"first.w", "second.w"};
  for (const int world : {1, 2}) {
    for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
      expect_as_by_hand(world, precision, layers, {}, cast, [] { return at::randn({5, 2}) / 8; });
      expect_as_by_hand(world, precision, layers, {1, 2}, cast, [] { return at::randn({5, 2}) / 8; });
    }
  }
}

// One weight under two names: an embedding, and what turns it into scores.
ir::Model tied_layers() {
  using ir::Ref;
  ir::testing::ModelBuilder builder;
  const ir::testing::Sizes ids = {ir::testing::dynamic("s0"), ir::testing::fixed(5)};
  const auto with = [&](std::int64_t size) {
    ir::testing::Sizes sizes = ids;
    sizes.push_back(ir::testing::fixed(size));
    return sizes;
  };
  archive::Payload weight = archive::testing::float_payload({3, 2}, {1, -2, 3, 0.1F, -1, 2});
  weight.is_parameter = weight.requires_grad = true;
  const Ref embedding = builder.parameter("embed.weight", weight);
  const Ref head = builder.parameter("head.weight", weight);
  const Ref x = builder.input("x", ids, DType::kInt64);
  const Ref a = builder.call("a", "torch.ops.aten.embedding.default", {{"weight", embedding}, {"indices", x}}, with(2));
  const Ref b = builder.call("b", "torch.ops.aten.tanh.default", {{"self", a}}, with(2));
  return builder.returns(
      {builder.call("c", "torch.ops.aten.linear.default", {{"input", b}, {"weight", head}}, with(3))});
}

TEST(MixedPrecision, ATiedWeightHasOneCopy) {
  const ir::Model tied = tied_layers();
  const graph::Engine engine = graph::Engine::create(tied).value();
  ASSERT_TRUE(engine.tensors()[0].is_same(engine.tensors()[1]));
  for (const int world : {1, 2}) {
    expect_as_by_hand(world, Precision::kBf16, tied, {2}, {"embed.weight", "head.weight"}, [] {
      return at::randint(0, 3, {4, 5});
    });
  }
  MixedPrecision precision(engine, Precision::kBf16);
  const std::span<const Tensor> tensors = precision.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_EQ(tensors[i].is_same(tensors[j]), engine.tensors()[i].is_same(engine.tensors()[j]));
  }
}

TEST(MixedPrecision, WhatABatchNormReadsStaysIn32Bits) {
  const ir::Model normalised = ir::read_archive(golden("normalised")).value();
  const graph::Engine engine = graph::Engine::create(normalised).value();
  const std::set<std::string> kept = kept_in_float32(engine);
  EXPECT_FALSE(kept.empty());
  std::vector<std::string> cast;
  MixedPrecision precision(engine, Precision::kFp16);
  for (std::size_t i = 0; i < engine.names().size(); ++i) {
    const Tensor& own = engine.tensors()[i];
    const bool is_cast = own.requires_grad() && !kept.contains(engine.names()[i]);
    if (is_cast) cast.push_back(engine.names()[i]);
    EXPECT_EQ(precision.tensors()[i].is_same(own), !is_cast) << engine.names()[i];
  }
  EXPECT_FALSE(cast.empty());
  for (const int world : {1, 2})
    expect_as_by_hand(world, Precision::kBf16, normalised, {}, cast, [] { return at::randn({6, 4}); });
}

TEST(MixedPrecision, AFrozenWeightHasACopyThatTakesNoGradient) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers(/*first_is_trained=*/false)).value();
  MixedPrecision precision(engine, Precision::kBf16);
  EXPECT_EQ(precision.tensors()[0].scalar_type(), at::kBFloat16);
  EXPECT_FALSE(precision.tensors()[0].requires_grad());
  EXPECT_TRUE(precision.tensors()[1].requires_grad());
}

TEST(MixedPrecision, CopiesAreMadeAnewOnlyWhereAWeightHasChanged) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers()).value();
  MixedPrecision precision(engine, Precision::kBf16);
  const Tensor copy = precision.tensors()[0];
  const auto version = copy._version();
  (void)precision.tensors();
  EXPECT_EQ(copy._version(), version) << "nothing has changed";
  {
    const at::NoGradGuard without_record;
    engine.tensors()[0].add_(1);
  }
  (void)precision.tensors();
  EXPECT_TRUE(at::equal(copy.detach(), engine.tensors()[0].detach().to(at::kBFloat16)));
}

TEST(MixedPrecision, In32BitsTheGraphRunsOnTheWeightsThemselves) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers()).value();
  MixedPrecision precision(engine, Precision::kFloat32);
  EXPECT_TRUE(precision.tensors()[0].is_same(engine.tensors()[0]));
  EXPECT_EQ(precision.inputs({at::ones({1}, at::kDouble)})[0].toTensor().scalar_type(), at::kDouble);
}

TEST(MixedPrecision, EvaluationsComputeIn16BitsAndReturn32) {
  on_ranks(1, worker::testing::layers(), {}, in(Precision::kBf16), [&](std::size_t, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    const Tensor x = at::linspace(-1, 1, 6).view({3, 2});
    const Tensor output = own.ddp.evaluate({x})->at(0).toTensor();
    const Tensor expected = own.engine.run(graph::Mode::kEval, {x}).at(0).toTensor();
    EXPECT_EQ(output.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(output, output.to(at::kBFloat16).to(at::kFloat)));
    EXPECT_TRUE(at::allclose(output, expected, 0.02, 0.02));
  });
}

// -- the loss scale of fp16

// In step 1 rank 1's loss is beyond what fp16 holds, once scaled.
DdpOptions with_an_overflow() {
  DdpOptions options = in(Precision::kFp16);
  options.criterion = [](const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const double factor = head.step == 3 ? 1e6 : 1;
    return worker::CriterionResult{worker::testing::loss_of(outputs.at(0).toTensor()) * factor, 4, 0};
  };
  return options;
}

TEST(LossScaling, AnOverflowOnOneRankSkipsTheUpdateOnAllAndHalvesTheScale) {
  std::vector<std::vector<Tensor>> after(2);
  on_ranks(2, worker::testing::layers(), {1}, with_an_overflow(), [&](std::size_t rank, OfRank& own) {
    ASSERT_EQ(own.ddp.begin(), Status());
    const auto step = [&](std::uint64_t number) {
      ASSERT_TRUE(own.ddp.train(head_of(number, rank, 2, 0.5), {at::full({4, 2}, 0.25)}).ok());
    };
    step(0);
    const Tensor before = own.engine.tensors()[0].detach().clone();
    step(1);
    EXPECT_TRUE(at::equal(own.engine.tensors()[0].detach(), before));
    EXPECT_EQ(own.ddp.updates(), 1U);
    EXPECT_EQ(own.ddp.steps(), 2U);
    EXPECT_EQ(own.ddp.loss_scale()->skipped(), 1U);
    EXPECT_EQ(own.ddp.loss_scale()->scale(), 32768);
    step(2);
    EXPECT_FALSE(at::equal(own.engine.tensors()[0].detach(), before)) << "the next one is taken";
    EXPECT_EQ(own.ddp.updates(), 2U);
    for (const Tensor& tensor : own.engine.tensors()) after[rank].push_back(tensor.detach().clone());
  });
  for (std::size_t i = 0; i < after[0].size(); ++i) EXPECT_TRUE(at::equal(after[0][i], after[1][i])) << i;
}

TEST(LossScaling, TheScaleGrowsAndGradientsDoNotChangeWithIt) {
  const ir::Model model = worker::testing::layers();
  DdpOptions options = in(Precision::kFp16);
  options.loss_scale = {.initial = 256, .growth_interval = 2};
  std::vector<Tensor> gradients;
  options.on_gradients = [&](std::vector<Tensor>& own) { gradients.push_back(own[0].clone()); };
  on_ranks(1, model, {}, options, [&](std::size_t, OfRank& own) {
    own.ddp.optimizer()->groups()[0].options["lr"] = 0.0;
    ASSERT_EQ(own.ddp.begin(), Status());
    for (std::uint64_t step = 0; step < 4; ++step)
      ASSERT_TRUE(own.ddp.train(head_of(step, 0, 1, 1), {at::full({4, 2}, 0.25)}).ok());
    EXPECT_EQ(own.ddp.loss_scale()->scale(), 1024);
  });
  ASSERT_EQ(gradients.size(), 4U);
  EXPECT_TRUE(at::equal(gradients[0], gradients[3])) << "a power of two rounds nothing";
}

TEST(LossScaling, OtherPrecisionsHaveNone) {
  on_ranks(1, worker::testing::layers(), {}, in(Precision::kBf16),
           [&](std::size_t, OfRank& own) { EXPECT_FALSE(own.ddp.loss_scale().has_value()); });
}

// -- what may be trained

ir::Model with_a_cast() {
  using ir::Ref;
  ir::testing::ModelBuilder builder;
  const ir::testing::Sizes sizes = {ir::testing::dynamic("s0"), ir::testing::fixed(2)};
  const Ref w = builder.parameter("w", {2, 2}, {1, -2, 3, 4});
  const Ref x = builder.input("x", sizes);
  const Ref cast = builder.call("cast", "torch.ops.aten.to.dtype", {{"self", x}, {"dtype", DType::kFloat32}}, sizes);
  return builder.returns(
      {builder.call("out", "torch.ops.aten.linear.default", {{"input", cast}, {"weight", w}}, sizes)});
}

TEST(CheckPrecision, AGraphThatNamesATypeIsRefusedUnlessItsCaptureHasLooked) {
  ir::Model model = with_a_cast();
  const graph::Engine unchecked = graph::Engine::create(model).value();
  EXPECT_EQ(check_precision(unchecked, Precision::kFloat32, "m.pt2"), Status());
  EXPECT_THAT(check_precision(unchecked, Precision::kBf16, "m.pt2").message(),
              HasSubstr("m.pt2 can not be trained in bf16 as it is: its operator \"cast\" (torch.ops.aten.to.dtype) "
                        "names a floating type"));
  model.checked_precisions = {"bf16"};
  const graph::Engine checked = graph::Engine::create(model).value();
  EXPECT_EQ(check_precision(checked, Precision::kBf16, "m.pt2"), Status());
  EXPECT_FALSE(check_precision(checked, Precision::kFp16, "m.pt2").ok());
}

TEST(CheckPrecision, AGraphThatNamesNoneNeedsNoLook) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers()).value();
  EXPECT_THAT(engine.checked_precisions(), IsEmpty());
  EXPECT_EQ(check_precision(engine, Precision::kFp16, "m.pt2"), Status());
}

TEST(ParsePrecision, NamesTheChoices) {
  EXPECT_EQ(*parse_precision("bf16"), Precision::kBf16);
  EXPECT_EQ(precision_name(Precision::kFp16), "fp16");
  EXPECT_EQ(parse_precision("half").status().message(),
            "there is no precision \"half\"; there are float32, bf16 and fp16");
}

}  // namespace
}  // namespace ravnest::strategy
