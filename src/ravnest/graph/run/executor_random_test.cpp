#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/run/dropout.h"
#include "ravnest/graph/run/executor.h"
#include "ravnest/graph/run/testing/program.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::ModelBuilder;
using ::testing::HasSubstr;
using testing::Program;

// The same random operator on x twice, by operators at these places.
ir::Model random_model(const std::string& target, std::int32_t first = 0, std::int32_t second = 1) {
  const bool dropout = target == "torch.ops.aten.dropout.default";
  ModelBuilder builder;
  const Ref x = builder.input("x", {dynamic("s0")});
  const auto draw = [&](const char* name) {
    std::vector<ir::NamedArgument> inputs = {{dropout ? "input" : "self", x}, {"p", 0.5}};
    if (dropout) inputs.push_back({"train", true});
    return builder.call(name, target, inputs, {dynamic("s0")});
  };
  const Ref a = draw("a");
  const Ref b = draw("b");
  ir::Model model = builder.returns({a, b});
  model.train.operators[0].place = first;
  model.train.operators[1].place = second;
  return model;
}

std::vector<at::Tensor> drawn(const Program& program, std::optional<RandomKey> key) {
  std::vector<at::Tensor> result;
  for (const IValue& value : program.executor.run(program.tensors, {at::ones({256})}, {key, nullptr}))
    result.push_back(value.toTensor());
  return result;
}

// An operator of torch's, drawing from a generator, and the one that has a faster way of its own.
class Random : public ::testing::TestWithParam<const char*> {
 protected:
  std::string target_ = std::string("torch.ops.aten.") + GetParam();
};

TEST_P(Random, TheSameKeyGivesTheSameNumbersAndAnotherOthers) {
  const Program program(random_model(target_));
  const auto once = drawn(program, RandomKey{1, 2});
  EXPECT_TRUE(at::equal(once[0], drawn(program, RandomKey{1, 2})[0]));
  EXPECT_FALSE(at::equal(once[0], drawn(program, RandomKey{1, 3})[0])) << "step";
  EXPECT_FALSE(at::equal(once[0], drawn(program, RandomKey{2, 2})[0])) << "seed";
  EXPECT_FALSE(at::equal(once[0], once[1])) << "place";
}

TEST_P(Random, NumbersGoWithTheOperatorsPlaceNotWithTheOrderOfTheGraph) {
  const auto once = drawn(Program(random_model(target_, 4, 9)), RandomKey{});
  const auto turned = drawn(Program(random_model(target_, 9, 4)), RandomKey{});
  EXPECT_TRUE(at::equal(once[0], turned[1]));
  EXPECT_TRUE(at::equal(once[1], turned[0]));
}

TEST_P(Random, TheProcesssOwnGeneratorNoticesNothing) {
  at::manual_seed(7);
  at::randn({3});  // leaves half of a pair of normal numbers behind
  const at::Tensor expected = at::randn({5});
  at::manual_seed(7);
  at::randn({3});
  drawn(Program(random_model(target_)), RandomKey{1, 2});
  EXPECT_TRUE(at::equal(at::randn({5}), expected));
}

TEST_P(Random, OnRequestNumbersComeFromThePlainStream) {
  const Program program(random_model(target_));
  const auto directly = [&] {
    const at::Tensor x = at::ones({256});
    return target_ == "torch.ops.aten.bernoulli.p" ? at::bernoulli(x, 0.5) : at::dropout(x, 0.5, true);
  };
  at::manual_seed(3);
  const auto ours = drawn(program, std::nullopt);
  at::manual_seed(3);
  EXPECT_TRUE(at::equal(ours[0], directly()));
  EXPECT_TRUE(at::equal(ours[1], directly()));
}

// Other threads may draw from the process's generator meanwhile: a loader that shuffles, for instance.
TEST(RandomEval, ADropoutThatDoesNotTrainLeavesTheGeneratorAlone) {
  struct Watch final : RunObserver {
    void before(const ir::Operator&, std::span<const IValue>) override {}
    void after(const ir::Operator&, std::span<const IValue>) override {
      seeds.push_back(at::globalContext().defaultGenerator(c10::kCPU).current_seed());
    }
    std::vector<std::uint64_t> seeds;
  };
  ModelBuilder builder;
  const Ref x = builder.input("x", {dynamic("s0")});
  const Ref y = builder.call("y", "torch.ops.aten.dropout.default", {{"input", x}, {"p", 0.5}, {"train", false}},
                             {dynamic("s0")});
  const Program program(builder.returns({y}));
  at::manual_seed(11);
  Watch watch;
  program.executor.run(program.tensors, {at::ones({4})}, {RandomKey{1, 2}, &watch});
  EXPECT_THAT(watch.seeds, ::testing::ElementsAre(11));
}

INSTANTIATE_TEST_SUITE_P(Keyed, Random, ::testing::Values("bernoulli.p", "dropout.default"),
                         [](const auto& each) { return std::string(each.param).substr(0, 7); });

TEST(Dropout, KeepsItsShareScaledAndPassesTheGradientWhereItKept) {
  at::Tensor x = at::ones({100, 1000}).requires_grad_();
  const at::Tensor y = keyed_dropout(x, 0.25, 42);
  const at::Tensor kept = y > 0;
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.75, 0.01);
  EXPECT_TRUE(at::allclose(y.masked_select(kept), at::full({}, 1 / 0.75)));
  EXPECT_TRUE(at::equal(torch::autograd::grad({y.sum()}, {x})[0], y.detach()));
}

TEST(Dropout, TheMaskIsTheSameForAnyLengthBehindAnElement) {
  const at::Tensor longer = keyed_dropout(at::ones({100003}), 0.5, 7);
  for (const std::int64_t size : {1, 31, 32, 33, 1000, 100002})
    EXPECT_TRUE(at::equal(keyed_dropout(at::ones({size}), 0.5, 7), longer.slice(0, 0, size))) << size;
}

TEST(Dropout, TheMaskGoesByIndexWhateverTheStrides) {
  const at::Tensor transposed = at::ones({40, 30}).t();
  EXPECT_TRUE(at::equal(keyed_dropout(transposed, 0.5, 7), keyed_dropout(transposed.contiguous(), 0.5, 7)));
}

TEST(Dropout, NothingAndEverythingCanBeDropped) {
  const at::Tensor x = at::ones({100});
  EXPECT_TRUE(at::equal(keyed_dropout(x, 0, 1), x));
  EXPECT_TRUE(at::equal(keyed_dropout(x, 1, 1), at::zeros({100})));
  EXPECT_EQ(keyed_dropout(at::ones({0, 3}), 0.5, 1).numel(), 0);
}

TEST(Dropout, AProbabilityThatIsNoneIsRefusedAsTorchRefusesIt) {
  for (const double p : {-1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    ir::Model model = random_model("torch.ops.aten.dropout.default");
    model.train.operators[0].inputs[1].value = p;
    EXPECT_THAT(Program(model).failure({at::ones({4})}), HasSubstr("dropout probability has to be between 0 and 1"));
  }
}

}  // namespace
}  // namespace ravnest::graph
