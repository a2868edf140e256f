#include "ravnest/graph/run/executor.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ravnest/graph/ir/expression.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/run/testing/program.h"

namespace ravnest::graph {
namespace {

using archive::testing::float_payload;
using c10::IValue;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::fixed;
using ir::testing::ModelBuilder;
using ::testing::HasSubstr;
using testing::Program;

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
  builder.add("mul", "torch.ops.aten.mul.Tensor", {{"self", y}, {"other", std::int64_t{2}}}, {doubled}).module_stack =
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
  void before(const ir::Operator& op, std::span<const IValue>) override {
    std::string& alive = seen[op.name];
    for (const auto& [name, storage] : made) alive += storage.expired() ? "" : name + " ";
  }
  void after(const ir::Operator& op, std::span<const IValue> results) override {
    made.emplace_back(op.name, results[0].toTensor().storage().getWeakStorageImpl());
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

TEST(Executor, AnErrorOfAnOperatorNamesItAndItsModule) {
  ir::Model model = small();
  model.train.operators[1].inputs[1].value = std::string("two");
  EXPECT_THAT(Program(model).failure({at::ones({2, 2})}),
              HasSubstr("while running operator \"mul\" (torch.ops.aten.mul.Tensor) of module block.0"));
}

TEST(Executor, AnOperatorOrArgumentThatTorchDoesNotKnowIsRefusedAtCompileTime) {
  ir::Model model = small();
  model.train.operators[1].target = "torch.ops.aten.frobnicate.default";
  EXPECT_THAT(refusal(model), HasSubstr("at \"mul\": operator torch.ops.aten.frobnicate.default is not known"));
  model = small();
  model.train.operators[1].inputs[1].name = "factor";
  EXPECT_THAT(refusal(model), HasSubstr("at \"mul\""));
  model = small();
  model.train.operators[1].outputs.push_back(ir::None{});
  EXPECT_THAT(refusal(model), HasSubstr("returns fewer values"));
}

TEST(Executor, ArithmeticOnSizesThatClaimsMoreResultsThanOneIsRefused) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  builder.number("n", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}}, dynamic("s0"));
  ir::Model model = builder.returns({x});
  model.train.operators[0].outputs.push_back(ir::None{});
  EXPECT_THAT(refusal(model), HasSubstr("returns fewer values"));
  model.train.operators[0].outputs.pop_back();
  model.train.operators[0].inputs.pop_back();
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
  builder.add("split", "torch.ops.aten.split.Tensor",
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
              HasSubstr("dimension 0 is 65, the captured graph takes at most 64"));
  EXPECT_THAT(program.failure({at::ones({3}), at::ones({4})}),
              HasSubstr("input \"y\": dimension 0 is 4, but the same size (s0) is 3 in another input"));
}

TEST(InputCheck, ASizeWithoutAnUpperLimitIsSaidToBeAtLeastSoMuch) {
  ModelBuilder builder;
  ir::Model model = builder.returns({builder.input("x", {dynamic("s0")})});
  model.train.ranges["s0"] = {5, std::nullopt};
  EXPECT_THAT(Program(model).failure({at::ones({3})}),
              HasSubstr("dimension 0 is 3, the captured graph takes at least 5"));
  model.train.ranges["s0"] = {5, 8};
  EXPECT_THAT(Program(model).failure({at::ones({9})}), HasSubstr("the captured graph takes from 5 to 8"));
}

TEST(InputCheck, ASizeThatFollowsFromAnotherIsChecked) {
  ModelBuilder builder;
  const auto size = [](std::int64_t hint, const std::string& expression) { return ir::Size{hint, expression}; };
  const std::string s0 = ir::symbol_text("s0");
  const Ref x = builder.input("x", {size(8, "Mul(Integer(2), " + s0 + ")")});
  builder.input("y", {size(9, "Add(Integer(1), Mul(Integer(2), " + s0 + "))")});
  builder.input("z", {size(2, "FloorDiv(" + s0 + ", Integer(2))")});  // not looked at
  ir::Model model = builder.returns({x});
  model.train.ranges["s0"] = {3, std::nullopt};
  const Program program(model);
  const auto failure = [&](std::int64_t x, std::int64_t y) {
    return program.failure({at::ones({x}), at::ones({y}), at::ones({1})});
  };
  EXPECT_EQ(failure(6, 7), "ran");
  EXPECT_THAT(failure(7, 7),
              HasSubstr("\"x\": dimension 0 is 7, the captured graph takes a multiple of 2 and at least 6"));
  EXPECT_THAT(failure(4, 5),
              HasSubstr("\"x\": dimension 0 is 4, the captured graph takes a multiple of 2 and at least 6"));
  EXPECT_THAT(failure(6, 8), HasSubstr("the captured graph takes a multiple of 2 plus 1 and at least 7"));
  EXPECT_THAT(failure(6, 9), HasSubstr("\"y\": dimension 0 is 9 and has to be 7 beside the size 3 (s0) of the inputs"));
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

}  // namespace
}  // namespace ravnest::graph
