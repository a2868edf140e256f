#include "ravnest/graph/executor.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ravnest/graph/dropout.h"
#include "ravnest/graph/ir/testing.h"
#include "ravnest/graph/tensors.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::fixed;
using ir::testing::float_payload;
using ir::testing::ModelBuilder;
using ::testing::HasSubstr;

// A model's training graph with its tensors, ready to run.
struct Program {
  explicit Program(const ir::Model& model) : tensors(materialize(model.weights, at::kCPU)), executor(compiled(model)) {}

  static Executor compiled(const ir::Model& model) {
    std::vector<std::string> names;
    for (const auto& [name, payload] : model.weights) names.push_back(name);
    Result<Executor> executor = Executor::compile(std::make_shared<ir::Graph>(model.train), names, at::kCPU);
    TORCH_CHECK(executor.ok(), executor.status().message());
    return std::move(*executor);
  }

  at::Tensor operator()(std::vector<IValue> inputs, const RunOptions& options = {}) const {
    return executor.run(tensors, std::move(inputs), options).at(0).toTensor();
  }

  std::string failure(std::vector<IValue> inputs) const {
    try {
      executor.run(tensors, std::move(inputs), {});
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "ran";
  }

  std::vector<at::Tensor> tensors;
  Executor executor;
};

std::string refusal(const ir::Model& model) {
  try {
    Program::compiled(model);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "compiled";
}

const ir::testing::Sizes kBatch = {dynamic("s0"), fixed(2)};

// relu(linear(x, w) * 2)
ir::Model small() {
  ModelBuilder builder;
  const Ref w = builder.parameter("w", {2, 2}, {1, -2, 3, 4});
  const Ref x = builder.input("x", kBatch);
  const Ref y = builder.call("linear", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, kBatch);
  const Ref doubled = builder.tensor("mul", kBatch);
  builder.node("mul", "torch.ops.aten.mul.Tensor", {{"self", y}, {"other", std::int64_t{2}}}, {doubled}).module_stack =
      "L__self__,,Net;a,block.0,Block";
  return builder.returns({builder.call("relu", "torch.ops.aten.relu.default", {{"self", doubled}}, kBatch)});
}

TEST(Executor, ForwardAndGradientsAreThoseOfTheSameCalls) {
  const Program program(small());
  at::Tensor x = at::randn({5, 2}).requires_grad_();
  at::Tensor y = program({x});
  const auto gradients = torch::autograd::grad({y.sum()}, {x, program.tensors[0]});
  at::Tensor own_x = x.detach().clone().requires_grad_();
  at::Tensor own_w = program.tensors[0].detach().clone().requires_grad_();
  at::Tensor expected = at::relu(at::linear(own_x, own_w) * 2);
  const auto own = torch::autograd::grad({expected.sum()}, {own_x, own_w});
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(gradients[0], own[0]));
  EXPECT_TRUE(at::equal(gradients[1], own[1]));
  EXPECT_TRUE(program.tensors[0].requires_grad());
}

TEST(Executor, AnotherVersionOfTheWeightsIsJustAnotherListOfTensors) {
  const Program program(small());
  const std::vector<at::Tensor> zeros = {at::zeros({2, 2})};
  const std::vector<IValue> outputs = program.executor.run(zeros, {at::ones({3, 2})}, {});
  EXPECT_TRUE(at::equal(outputs[0].toTensor(), at::zeros({3, 2})));
}

// Counts, before every operator, which of the results so far are still alive.
struct Lives : RunObserver {
  void before(const ir::Node& node, std::span<const IValue>) override {
    std::string& alive = seen[node.name];
    for (const auto& [name, storage] : made) alive += storage.expired() ? "" : name + " ";
  }
  void after(const ir::Node& node, std::span<const IValue> results) override {
    made.emplace_back(node.name, results[0].toTensor().storage().getWeakStorageImpl());
  }
  std::vector<std::pair<std::string, c10::weak_intrusive_ptr<c10::StorageImpl>>> made;
  std::map<std::string, std::string> seen;
};

TEST(Executor, ValuesAreFreedAtTheirLastUse) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", {{"self", x}}, kBatch);
  const Ref b = builder.call("b", "torch.ops.aten.add.Tensor", {{"self", a}, {"other", a}}, kBatch);
  const Ref unread = builder.call("unread", "torch.ops.aten.neg.default", {{"self", b}}, kBatch);
  static_cast<void>(unread);
  const Ref c = builder.call("c", "torch.ops.aten.neg.default", {{"self", b}}, kBatch);
  const Ref d = builder.call("d", "torch.ops.aten.neg.default", {{"self", c}}, kBatch);
  const Program program(builder.returns({d}));
  Lives lives;
  RunOptions options;
  options.observer = &lives;
  at::Tensor y = program({at::ones({2, 2})}, options);
  EXPECT_EQ(lives.seen["b"], "a ");
  EXPECT_EQ(lives.seen["unread"], "b ");
  EXPECT_EQ(lives.seen["c"], "b ") << "what nobody reads is dropped at once";
  EXPECT_EQ(lives.seen["d"], "c ");
}

TEST(Executor, AnInputThatIsHandedOverIsFreedAtItsLastUse) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", {{"self", x}}, kBatch);
  const Program program(builder.returns({builder.call("b", "torch.ops.aten.neg.default", {{"self", a}}, kBatch)}));
  at::Tensor input = at::ones({2, 2});
  Lives lives;
  lives.made.emplace_back("x", input.storage().getWeakStorageImpl());
  RunOptions options;
  options.observer = &lives;
  std::vector<IValue> inputs;
  inputs.emplace_back(std::move(input));
  static_cast<void>(program(std::move(inputs), options));
  EXPECT_EQ(lives.seen["a"], "x ");
  EXPECT_EQ(lives.seen["b"], "a ");
}

TEST(Executor, AnErrorOfAnOperatorNamesTheNodeAndItsModule) {
  ir::Model model = small();
  model.train.nodes[1].inputs[1].value = std::string("two");
  EXPECT_THAT(Program(model).failure({at::ones({2, 2})}),
              HasSubstr("while running node \"mul\" (torch.ops.aten.mul.Tensor) of module block.0"));
}

TEST(Executor, AnOperatorOrArgumentThatTorchDoesNotKnowIsRefusedAtCompileTime) {
  ir::Model model = small();
  model.train.nodes[1].target = "torch.ops.aten.frobnicate.default";
  EXPECT_THAT(refusal(model), HasSubstr("node \"mul\": operator torch.ops.aten.frobnicate.default is not known"));
  model = small();
  model.train.nodes[1].inputs[1].name = "factor";
  EXPECT_THAT(refusal(model), HasSubstr("node \"mul\""));
  model = small();
  model.train.nodes[1].outputs.push_back(ir::None{});
  EXPECT_THAT(refusal(model), HasSubstr("returns fewer values"));
}

TEST(Executor, ArithmeticOnSizesThatClaimsMoreResultsThanOneIsRefused) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  builder.number("n", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}}, dynamic("s0"));
  ir::Model model = builder.returns({x});
  model.train.nodes[0].outputs.push_back(ir::None{});
  EXPECT_THAT(refusal(model), HasSubstr("returns fewer values"));
  model.train.nodes[0].outputs.pop_back();
  model.train.nodes[0].inputs.pop_back();
  EXPECT_THAT(refusal(model), HasSubstr("takes 2 arguments, not 1"));
}

TEST(Executor, SizesAreComputedFromTheInputsOfTheRun) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref n =
      builder.number("n", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}}, dynamic("s0"));
  const Ref twice = builder.number("twice", "_operator.mul", {{"a", n}, {"b", std::int64_t{2}}},
                                   {8, "Mul(Integer(2), Symbol('s0'))"});
  const Ref flat = builder.call("flat", "torch.ops.aten.view.default",
                                {{"self", x}, {"size", std::vector<ir::IntOrRef>{twice}}}, {dynamic("s1", 8)});
  const Program program(builder.returns({flat, twice}));
  EXPECT_EQ(program({at::ones({7, 2})}).sizes(), (std::vector<std::int64_t>{14}));
  EXPECT_EQ(program({at::ones({2, 3}).t().slice(1, 0, 2)}).sizes(), (std::vector<std::int64_t>{6}))
      << "a view that the strides do not allow is made by a copy";
}

TEST(Executor, ListsOfTensorsGoInAndOut) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref left = builder.tensor("left", {dynamic("s0"), fixed(1)});
  const Ref right = builder.tensor("right", {dynamic("s0"), fixed(1)});
  builder.node("split", "torch.ops.aten.split.Tensor",
               {{"self", x}, {"split_size", std::int64_t{1}}, {"dim", std::int64_t{1}}},
               {std::vector<Ref>{left, right}});
  const Ref swapped = builder.call("cat", "torch.ops.aten.cat.default",
                                   {{"tensors", std::vector<Ref>{right, left}}, {"dim", std::int64_t{1}}}, kBatch);
  const Program program(builder.returns({swapped}));
  const at::Tensor x_given = at::arange(6, at::kFloat).reshape({3, 2});
  EXPECT_TRUE(at::equal(program({x_given}), x_given.flip(1)));
}

TEST(Executor, BuffersAreWrittenInPlace) {
  ModelBuilder builder;
  const Ref count = builder.buffer("count", float_payload({1}, {0}));
  const Ref x = builder.input("x", kBatch);
  builder.call("add_", "torch.ops.aten.add_.Tensor", {{"self", count}, {"other", std::int64_t{1}}}, {fixed(1)});
  const Program program(builder.returns({x}));
  program({at::ones({2, 2})});
  program({at::ones({2, 2})});
  EXPECT_EQ(program.tensors[0].item<float>(), 2);
}

TEST(Executor, ABatchTooSmallForBatchNormIsRefusedWithTheWayOut) {
  ModelBuilder builder;
  const Ref mean = builder.buffer("mean", float_payload({2}, {0, 0}));
  const Ref var = builder.buffer("var", float_payload({2}, {1, 1}));
  const Ref x = builder.input("x", kBatch);
  const Program program(builder.returns({builder.call("norm", "torch.ops.aten.batch_norm.default",
                                                      {{"input", x},
                                                       {"weight", ir::None{}},
                                                       {"bias", ir::None{}},
                                                       {"running_mean", mean},
                                                       {"running_var", var},
                                                       {"training", true},
                                                       {"momentum", 0.1},
                                                       {"eps", 1e-5},
                                                       {"cudnn_enabled", false}},
                                                      kBatch)}));
  EXPECT_THAT(program.failure({at::ones({1, 2})}), HasSubstr("drop the last, short batch or use larger ones"));
  EXPECT_EQ(program.failure({at::ones({2, 2})}), "ran");
}

TEST(InputCheck, SaysWhatAnArgumentIsAndWhatItShouldBe) {
  const Program program(small());
  EXPECT_THAT(program.failure({}), HasSubstr("takes 1 inputs, 0 were given"));
  EXPECT_THAT(program.failure({std::int64_t{3}}), HasSubstr("input \"x\" must be a tensor float32[s0, 2], not Int"));
  EXPECT_THAT(program.failure({at::Tensor()}), HasSubstr("input \"x\" must be a tensor"));
  EXPECT_THAT(program.failure({at::ones({2, 2}, at::kDouble)}),
              HasSubstr("input \"x\" must be float32[s0, 2], not Double[2, 2]"));
  EXPECT_THAT(program.failure({at::ones({2})}), HasSubstr("input \"x\" must be float32[s0, 2]"));
  EXPECT_THAT(program.failure({at::ones({2, 3})}), HasSubstr("dimension 1 was captured as fixed"));
}

TEST(InputCheck, ASizeOutsideOfItsRangeOrOfTwoMindsIsNamed) {
  ModelBuilder builder;
  const Ref x = builder.input("x", {dynamic("s0")});
  builder.input("y", {dynamic("s0")});
  ir::Model model = builder.returns({x});
  model.train.ranges["s0"] = {2, 64};
  const Program program(model);
  EXPECT_EQ(program.failure({at::ones({1}), at::ones({1})}), "ran") << "export says from 2; a batch of one is fine";
  EXPECT_THAT(program.failure({at::ones({65}), at::ones({65})}),
              HasSubstr("dimension 0 is 65, the captured graph takes 0 to 64"));
  EXPECT_THAT(program.failure({at::ones({3}), at::ones({4})}),
              HasSubstr("input \"y\": dimension 0 is 4, but the same size (s0) is 3 in another input"));
}

TEST(InputCheck, AFixedArgumentTakesOnlyTheValueOfTheCapture) {
  ModelBuilder builder;
  const Ref x = builder.input("x", {dynamic("s0")});
  builder.fixed_input("flag", std::int64_t{3});
  const Program program(builder.returns({x}));
  EXPECT_EQ(program.failure({at::ones({2}), std::int64_t{3}}), "ran");
  EXPECT_THAT(program.failure({at::ones({2}), std::int64_t{4}}),
              HasSubstr("argument \"flag\" was captured with one fixed value"));
  EXPECT_THAT(program.failure({at::ones({2}), true}), HasSubstr("argument \"flag\""));
}

// The same random operator on x twice, by nodes at these places.
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
  model.train.nodes[0].place = first;
  model.train.nodes[1].place = second;
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
    void before(const ir::Node&, std::span<const IValue>) override {}
    void after(const ir::Node&, std::span<const IValue>) override {
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
  EXPECT_THAT(watch.seeds, testing::ElementsAre(11));
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
    model.train.nodes[0].inputs[1].value = p;
    EXPECT_THAT(Program(model).failure({at::ones({4})}), HasSubstr("dropout probability has to be between 0 and 1"));
  }
}

}  // namespace
}  // namespace ravnest::graph
