#include "ravnest/train/loop/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <cmath>
#include <functional>

#include "ravnest/train/config/loss_name.h"

namespace ravnest::train {
namespace {

namespace F = torch::nn::functional;

using Counts = std::pair<std::uint64_t, std::uint64_t>;
using Function = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

// The loss and its gradient, both held against torch's function bit for bit.
void expect_same(std::string_view name, const at::Tensor& output, const at::Tensor& target, const Function& expected) {
  const Result<Loss> loss = make_loss(name);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const at::Tensor ours = output.detach().clone().requires_grad_();
  const at::Tensor theirs = output.detach().clone().requires_grad_();
  const at::Tensor value = (*loss)(ours, target);
  const at::Tensor wanted = expected(theirs, target);
  EXPECT_TRUE(at::equal(value, wanted)) << name << ": " << value.item<double>() << ", not " << wanted.item<double>();
  value.backward();
  wanted.backward();
  EXPECT_TRUE(at::equal(ours.grad(), theirs.grad())) << name;
}

TEST(Losses, AreThoseOfTorchToTheBit) {
  at::manual_seed(1);
  const at::Tensor output = at::randn({33, 7});
  const at::Tensor target = at::randn({33, 7});
  const at::Tensor shares = at::rand({33, 7});
  const at::Tensor classes = at::randint(7, {33}, at::kLong);
  expect_same("mse", output, target, [](auto& o, auto& t) { return F::mse_loss(o, t); });
  expect_same("l1", output, target, [](auto& o, auto& t) { return F::l1_loss(o, t); });
  expect_same("smooth_l1", output, target, [](auto& o, auto& t) { return F::smooth_l1_loss(o, t); });
  expect_same("huber", output, 3 * target, [](auto& o, auto& t) { return F::huber_loss(o, t); });
  expect_same("cross_entropy", output, classes, [](auto& o, auto& t) { return F::cross_entropy(o, t); });
  expect_same("cross_entropy", output, shares, [](auto& o, auto& t) { return F::cross_entropy(o, t); });
  expect_same("nll", output.log_softmax(-1), classes, [](auto& o, auto& t) { return F::nll_loss(o, t); });
  expect_same("bce", output.sigmoid(), shares, [](auto& o, auto& t) { return F::binary_cross_entropy(o, t); });
  expect_same("bce_with_logits", output, shares,
              [](auto& o, auto& t) { return F::binary_cross_entropy_with_logits(o, t); });
  expect_same("kl_div", output.log_softmax(-1), shares.softmax(-1), [](auto& o, auto& t) { return F::kl_div(o, t); });
}

TEST(Losses, ValuesAreThoseOfTheFormulas) {
  const at::Tensor output = at::tensor({0.0, 3.0}, at::kDouble);
  const at::Tensor target = at::tensor({0.5, 1.0}, at::kDouble);
  const auto value = [&](std::string_view name) { return make_loss(name).value()(output, target).item<double>(); };
  EXPECT_DOUBLE_EQ(value("mse"), (0.25 + 4) / 2);
  EXPECT_DOUBLE_EQ(value("l1"), 2.5 / 2);
  EXPECT_DOUBLE_EQ(value("smooth_l1"), (0.125 + 1.5) / 2);
  EXPECT_DOUBLE_EQ(value("huber"), (0.125 + 1.5) / 2);
  const at::Tensor even = at::zeros({2, 4}, at::kDouble);
  EXPECT_DOUBLE_EQ(make_loss("cross_entropy").value()(even, at::tensor({3, 1}, at::kLong)).item<double>(), std::log(4));
}

TEST(Losses, CrossEntropyTakesClassesLastOrSecond) {
  at::manual_seed(2);
  const Function flattened = [](auto& o, auto& t) {
    return F::cross_entropy(o.reshape({-1, o.size(-1)}), t.reshape({-1}));
  };
  const Function second = [](auto& o, auto& t) { return F::cross_entropy(o, t); };
  expect_same("cross_entropy", at::randn({4, 6, 5}), at::randint(5, {4, 6}, at::kLong), flattened);
  expect_same("cross_entropy", at::randn({2, 3, 4, 5}), at::randint(5, {2, 3, 4}, at::kLong), flattened);
  expect_same("cross_entropy", at::randn({4, 6, 5}), at::randint(6, {4, 5}, at::kLong), second);
  expect_same("cross_entropy", at::randn({4, 5, 5}), at::randint(5, {4, 5}, at::kLong), flattened);
  expect_same("cross_entropy", at::randn({4, 6, 5}), at::rand({4, 6, 5}), second);
}

TEST(Losses, TargetsOfOtherSizesAreBroadcastOrRefusedAsTorchDoes) {
  expect_same("mse", at::rand({3, 1}), at::rand({3}), [](auto& o, auto& t) {
    return F::mse_loss(o.expand({3, 3}), t.expand({3, 3}));
  });
  for (const std::string_view name : {"bce", "bce_with_logits"})
    EXPECT_THROW(make_loss(name).value()(at::rand({3, 1}), at::rand({3})), c10::Error) << name;
}

TEST(Losses, NamesAreOursAndTorchsOwn) {
  const std::vector<std::pair<std::string_view, LossKind>> names = {
      {"mse", LossKind::kMse},
      {"mse_loss", LossKind::kMse},
      {"MSELoss", LossKind::kMse},
      {"L1Loss", LossKind::kL1},
      {"smooth_l1_loss", LossKind::kSmoothL1},
      {"SmoothL1Loss", LossKind::kSmoothL1},
      {"HuberLoss", LossKind::kHuber},
      {"CrossEntropyLoss", LossKind::kCrossEntropy},
      {"NLLLoss", LossKind::kNll},
      {"BCELoss", LossKind::kBce},
      {"binary_cross_entropy", LossKind::kBce},
      {"BCEWithLogitsLoss", LossKind::kBceWithLogits},
      {"binary_cross_entropy_with_logits", LossKind::kBceWithLogits},
      {"KLDivLoss", LossKind::kKlDiv}};
  for (const auto& [written, kind] : names) EXPECT_EQ(parse_loss(written).value(), kind) << written;
  for (const std::string_view each : loss_names()) EXPECT_EQ(name(parse_loss(each).value()), each);
  EXPECT_EQ(make_loss("cros_entropy").status(),
            invalid("there is no loss \"cros_entropy\"; there are mse, l1, smooth_l1, huber, cross_entropy, nll, bce, "
                    "bce_with_logits, kl_div; did you mean cross_entropy?"));
  EXPECT_EQ(make_loss("").status().code(), Code::kInvalid);
}

TEST(CorrectOf, CountsClassesAndOneHotTargets) {
  const at::Tensor output = at::tensor({0.1, 0.9, 0.8, 0.2, 0.3, 0.7}).reshape({3, 2});
  EXPECT_EQ(correct_of(output, at::tensor({1, 1, 1}, at::kLong)), Counts(2, 3));
  EXPECT_EQ(correct_of(output, at::tensor({1, 0, 1}, at::kByte)), Counts(3, 3));
  const at::Tensor one_hot = at::one_hot(at::tensor({0, 0, 1}, at::kLong), 2);
  EXPECT_EQ(correct_of(output, one_hot), Counts(2, 3));
  EXPECT_EQ(correct_of(output, one_hot.to(at::kFloat)), Counts(2, 3));
  EXPECT_EQ(correct_of(output.reshape({1, 3, 2}), at::tensor({1, 0, -100}, at::kLong).reshape({1, 3})), Counts(2, 2));
}

TEST(CorrectOf, SaysNothingWhereThereAreNoClasses) {
  const at::Tensor output = at::rand({4, 3});
  EXPECT_EQ(correct_of(output, at::rand({4, 3})), Counts(0, 0)) << "a regression";
  EXPECT_EQ(correct_of(at::rand({4, 1}), at::ones({4, 1})), Counts(0, 0));
  EXPECT_EQ(correct_of(output, at::zeros({4, 1}, at::kLong)), Counts(0, 0));
  EXPECT_EQ(correct_of(output, at::zeros({4})), Counts(0, 0));
  EXPECT_EQ(correct_of(output, at::zeros({4, 3})), Counts(0, 0));
  EXPECT_EQ(correct_of(at::rand({}), at::rand({})), Counts(0, 0));
  EXPECT_EQ(correct_of(at::rand({0, 3}), at::zeros({0}, at::kLong)), Counts(0, 0));
}

}  // namespace
}  // namespace ravnest::train
