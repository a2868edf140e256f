#include "ravnest/graph/cut/slice.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ravnest/graph/cut/flow.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/ir/uses.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::graph {
namespace {

using archive::testing::float_payload;
using c10::IValue;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::fixed;
using ir::testing::golden;
using ir::testing::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ir::testing::Sizes kBatch = {dynamic("s0"), fixed(2)};

std::vector<ir::NamedArgument> of(Ref x) { return {{"self", x}}; }
std::vector<ir::NamedArgument> of(Ref x, ir::Argument y) { return {{"self", x}, {"other", std::move(y)}}; }

std::string refusal(const ir::Model& model, int position) {
  return possible_cuts(model).value().at(static_cast<std::size_t>(position - 1)).refusal;
}

std::vector<ir::Model> stages_of(const ir::Model& model, std::vector<int> cuts) {
  Result<std::vector<ir::Model>> stages = slice(model, cuts);
  EXPECT_TRUE(stages.ok()) << stages.status();
  return std::move(*stages);
}

std::vector<std::string> operator_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Operator& op : graph.operators) names.push_back(op.name);
  return names;
}

std::vector<std::string> weight_names(const ir::Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, payload] : model.weights) names.push_back(name);
  return names;
}

// Hands every value from the stage that makes it to those that read it, and returns what the last stage returns.
std::vector<IValue> run_chain(std::vector<Engine>& stages, const std::vector<IValue>& inputs, Mode mode) {
  std::vector<std::vector<IValue>> outputs;
  for (const Engine& stage : stages) {
    const ir::Routing& routing = mode == Mode::kTrain ? stage.stage()->train : stage.stage()->eval;
    std::vector<IValue> given;
    for (const ir::Source& source : routing.inputs)
      given.push_back(source.stage < 0 ? inputs.at(source.index) : outputs.at(source.stage).at(source.index));
    outputs.push_back(stage.run(mode, std::move(given)));
  }
  return outputs.back();
}

std::vector<Engine> engines(std::vector<ir::Model> stages) {
  std::vector<Engine> result;
  for (ir::Model& stage : stages) result.push_back(Engine::create(std::move(stage)).value());
  return result;
}

// Two linear layers with an activation between them: operators 0, 1, 2.
ir::Model layers() {
  ModelBuilder builder;
  const Ref w = builder.parameter("first.w", {2, 2}, {1, -2, 3, 4});
  const Ref v = builder.parameter("second.w", {2, 2}, {2, 1, -1, 1});
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, kBatch);
  const Ref b = builder.call("b", "torch.ops.aten.tanh.default", of(a), kBatch);
  return builder.returns({builder.call("c", "torch.ops.aten.linear.default", {{"input", b}, {"weight", v}}, kBatch)});
}

TEST(Slice, AChainOfStagesGivesTheOutputsAndGradientsOfTheWhole) {
  const Engine whole = Engine::create(layers()).value();
  std::vector<Engine> chain = engines(stages_of(layers(), {1, 2}));
  const at::Tensor x = at::randn({5, 2});
  const at::Tensor expected = whole.run(Mode::kTrain, {x})[0].toTensor();
  const at::Tensor y = run_chain(chain, {x}, Mode::kTrain)[0].toTensor();
  EXPECT_TRUE(at::equal(y, expected));
  const auto own = torch::autograd::grad({expected.sum()}, {whole.tensors()[0], whole.tensors()[1]});
  const auto chained = torch::autograd::grad({y.sum()}, {chain[0].tensors()[0], chain[2].tensors()[0]});
  EXPECT_TRUE(at::equal(own[0], chained[0]));
  EXPECT_TRUE(at::equal(own[1], chained[1]));
  EXPECT_THAT(chain[1].names(), IsEmpty()) << "the stage of the activation has no weights";
}

TEST(Slice, EachStageIsAnArchiveOfItsOwn) {
  const std::vector<ir::Model> stages = stages_of(layers(), {2});
  for (const ir::Model& stage : stages) {
    const Result<ir::Model> again = ir::testing::read_back(ir::testing::bytes_of(stage).value());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ir::testing::shown(*again), ir::testing::shown(stage));
  }
  EXPECT_EQ(stages[1].train.operators[0].place, 2) << "places are those of the whole model";
}

TEST(Slice, PositionsOutsideOfTheGraphOrOutOfOrderAreRefused) {
  for (const std::vector<int>& cuts : {std::vector<int>{0}, {3}, {-1}, {2, 1}, {1, 1}}) {
    const Status status = slice(layers(), cuts).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(), HasSubstr("positions must ascend and lie between 1 and 2"));
  }
}

TEST(Slice, ACutSaysHowMuchCrossesItAtWhichSizes) {
  EXPECT_EQ(possible_cuts(layers()).value()[0].tensors, 1);
  EXPECT_EQ(possible_cuts(layers()).value()[0].bytes, 4 * 2 * 4) << "a batch of 4, as captured";
  EXPECT_EQ(possible_cuts(layers(), {{"s0", 10}}).value()[0].bytes, 10 * 2 * 4);
}

TEST(Slice, NoCutBetweenTheMakingOfATensorAndItsLastWriteThroughAnyName) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", of(x), kBatch);
  const Ref view = builder.call("view", "torch.ops.aten.t.default", of(a), {fixed(2), dynamic("s0")});
  builder.call("add_", "torch.ops.aten.add_.Tensor", of(view, std::int64_t{1}), {fixed(2), dynamic("s0")});
  const Ref b = builder.call("b", "torch.ops.aten.neg.default", of(a), kBatch);
  const ir::Model model = builder.returns({b});
  EXPECT_THAT(refusal(model, 1), HasSubstr("not between the making of"));
  EXPECT_THAT(refusal(model, 2), HasSubstr("its last change in place"));
  EXPECT_EQ(refusal(model, 3), "") << "behind the write the tensor can be sent";
  EXPECT_EQ(slice(model, std::vector<int>{2}).status().code(), Code::kInvalid);
  std::vector<Engine> chain = engines(stages_of(model, {3}));
  EXPECT_TRUE(at::equal(run_chain(chain, {at::ones({3, 2})}, Mode::kTrain)[0].toTensor(), at::zeros({3, 2})));
}

TEST(Slice, NoCutBetweenASplitAndAWriteToOneOfItsPieces) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", of(x), kBatch);
  const Ref left = builder.tensor("left", {dynamic("s0"), fixed(1)});
  const Ref right = builder.tensor("right", {dynamic("s0"), fixed(1)});
  builder.add("split", "torch.ops.aten.split.Tensor",
              {{"self", a}, {"split_size", std::int64_t{1}}, {"dim", std::int64_t{1}}},
              {std::vector<Ref>{left, right}});
  builder.call("add_", "torch.ops.aten.add_.Tensor", of(left, std::int64_t{1}), {dynamic("s0"), fixed(1)});
  const Ref b = builder.call("b", "torch.ops.aten.neg.default", of(a), kBatch);
  const ir::Model model = builder.returns({b});
  EXPECT_NE(refusal(model, 1), "");
  EXPECT_NE(refusal(model, 2), "");
  EXPECT_EQ(refusal(model, 3), "");
}

TEST(Slice, NoCutBetweenTheUsesOfABufferThatIsWritten) {
  ModelBuilder builder;
  const Ref count = builder.buffer("count", float_payload({1}, {0}));
  const Ref x = builder.input("x", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", of(x), kBatch);
  builder.call("add_", "torch.ops.aten.add_.Tensor", of(count, std::int64_t{1}), {fixed(1)});
  const Ref b = builder.call("b", "torch.ops.aten.neg.default", of(a), kBatch);
  builder.call("add__1", "torch.ops.aten.add_.Tensor", of(count, std::int64_t{1}), {fixed(1)});
  const Ref c = builder.call("c", "torch.ops.aten.neg.default", of(b), kBatch);
  const ir::Model model = builder.returns({c});
  EXPECT_EQ(refusal(model, 1), "");
  EXPECT_THAT(refusal(model, 2), HasSubstr("between the uses of \"count\", which is changed in place"));
  EXPECT_THAT(refusal(model, 3), HasSubstr("between the uses of \"count\""));
  EXPECT_EQ(refusal(model, 4), "");
  const std::vector<ir::Model> stages = stages_of(model, {1, 4});
  EXPECT_THAT(weight_names(stages[1]), ElementsAre("count"));
  EXPECT_THAT(operator_names(stages[1].train), ElementsAre("add_", "b", "add__1")) << "writes that nobody reads stay";
}

TEST(Slice, SizesAreReadOffWhatAStageIsGivenAndNeverSent) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref n =
      builder.number("n", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}}, dynamic("s0"));
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", of(x), kBatch);
  const Ref flat =
      builder.call("flat", "torch.ops.aten.view.default",
                   {{"self", a}, {"size", std::vector<ir::IntOrRef>{std::int64_t{2}, n}}}, {fixed(2), dynamic("s0")});
  const ir::Model model = builder.returns({flat});
  const std::vector<ir::Model> stages = stages_of(model, {2});
  ASSERT_THAT(operator_names(stages[1].train), ElementsAre("n", "flat"));
  EXPECT_EQ(stages[1].train.operators[0].target, "torch.ops.aten.sym_size.int");
  EXPECT_EQ(stages[1].stage->train.inputs.size(), 1U) << "only the tensor";
  std::vector<Engine> chain = engines(stages);
  EXPECT_EQ(run_chain(chain, {at::ones({9, 2})}, Mode::kTrain)[0].toTensor().sizes(),
            (std::vector<std::int64_t>{2, 9}));
}

TEST(Slice, AMaskMadeOfSizesAloneIsMadeAgainWhereItIsRead) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref n =
      builder.number("n", "torch.ops.aten.sym_size.int", {{"self", x}, {"dim", std::int64_t{0}}}, dynamic("s0"));
  const Ref row = builder.call("row", "torch.ops.aten.arange.default", {{"end", n}}, {dynamic("s0")}, DType::kInt64);
  const Ref mask = builder.call("mask", "torch.ops.aten.unsqueeze.default", {{"self", row}, {"dim", std::int64_t{1}}},
                                {dynamic("s0"), fixed(1)}, DType::kInt64);
  const Ref a = builder.call("a", "torch.ops.aten.mul.Tensor", of(x, mask), kBatch);
  const Ref b = builder.call("b", "torch.ops.aten.mul.Tensor", of(a, mask), kBatch);
  const ir::Model model = builder.returns({b});
  const std::vector<ir::Model> stages = stages_of(model, {4});
  EXPECT_THAT(operator_names(stages[1].train), ElementsAre("n", "row", "mask", "b"));
  EXPECT_EQ(stages[1].stage->train.inputs.size(), 1U);
  EXPECT_EQ(possible_cuts(model).value()[3].tensors, 1);
  std::vector<Engine> chain = engines(stages);
  const at::Tensor rows = at::arange(3).unsqueeze(1);
  EXPECT_TRUE(
      at::equal(run_chain(chain, {at::ones({3, 2})}, Mode::kTrain)[0].toTensor(), at::ones({3, 2}) * rows * rows));
}

TEST(Slice, ATensorGoesStraightToTheStagesThatReadIt) {
  ModelBuilder builder;
  const Ref x = builder.input("x", kBatch);
  const Ref y = builder.input("y", kBatch);
  const Ref a = builder.call("a", "torch.ops.aten.neg.default", of(x), kBatch);
  const Ref b = builder.call("b", "torch.ops.aten.tanh.default", of(a), kBatch);
  const Ref c = builder.call("c", "torch.ops.aten.add.Tensor", of(b, a), kBatch);
  const Ref d = builder.call("d", "torch.ops.aten.mul.Tensor", of(c, y), kBatch);
  const ir::Model model = builder.returns({d});
  const std::vector<ir::Model> stages = stages_of(model, {1, 2});
  EXPECT_THAT(stages[0].stage->train.consumers, ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(stages[1].stage->train.inputs, ElementsAre(ir::Source{0, 0}));
  EXPECT_THAT(stages[2].stage->train.inputs,
              ::testing::UnorderedElementsAre(ir::Source{-1, 1}, ir::Source{0, 0}, ir::Source{1, 0}));
  std::vector<Engine> chain = engines(stages);
  const at::Tensor given = at::randn({3, 2});
  EXPECT_TRUE(
      at::equal(run_chain(chain, {given, given}, Mode::kTrain)[0].toTensor(), (at::tanh(-given) + -given) * given));
}

TEST(Slice, ATiedWeightIsInEveryStageThatUsesItAndReported) {
  const ir::Model model = ir::read_archive(golden("tied")).value();
  const std::vector<ir::Model> stages = stages_of(model, {1});
  for (const ir::Model& stage : stages) {
    EXPECT_THAT(stage.stage->tied.at("embed.weight"), ElementsAre(0, 1));
    EXPECT_THAT(weight_names(stage), ::testing::Contains("embed.weight"));
  }
  std::vector<Engine> chain = engines(stages);
  const at::Tensor tokens = at::arange(6).reshape({2, 3});
  const Engine whole = Engine::create(model).value();
  const at::Tensor padded = at::cat({tokens, tokens}, 1).slice(1, 0, 5);
  EXPECT_TRUE(at::equal(run_chain(chain, {padded}, Mode::kTrain)[0].toTensor(),
                        whole.run(Mode::kTrain, {padded})[0].toTensor()));
}

TEST(Slice, RandomNumbersAndStatisticsAreThoseOfTheWholeWhereverItIsCut) {
  const ir::Model model = ir::read_archive(golden("normalised")).value();
  const at::Tensor x = at::randn({6, 4});
  const Engine whole = Engine::create(model).value();
  const at::Tensor expected = whole.run(Mode::kTrain, {x})[0].toTensor();
  int tried = 0;
  const std::vector<Cut> cuts = possible_cuts(model).value();
  for (const Cut& cut : cuts) {
    if (!cut.refusal.empty()) continue;
    std::vector<Engine> chain = engines(stages_of(model, {cut.position}));
    EXPECT_TRUE(at::equal(run_chain(chain, {x}, Mode::kTrain)[0].toTensor(), expected)) << cut.position;
    std::map<std::string, at::Tensor> buffers;
    for (const Engine& stage : chain)
      for (const auto& [name, tensor] : stage.buffers()) buffers[name] = tensor;
    for (const auto& [name, tensor] : whole.buffers()) EXPECT_TRUE(at::equal(buffers.at(name), tensor)) << name;
    ++tried;
  }
  EXPECT_GE(tried, 3);
}

TEST(Slice, EachTensorIsFirstUsedInTheStageThatKeepsItWhereTheWholeModelUsesItFirst) {
  for (const char* name : {"normalised", "tied"}) {
    const ir::Model model = ir::read_archive(golden(name)).value();
    const auto listed = ir::first_uses(model);
    const std::map<std::string, int> whole(listed.begin(), listed.end());
    EXPECT_GE(whole.size(), model.weights.size());
    const std::vector<Cut> cuts = possible_cuts(model).value();
    for (const Cut& cut : cuts) {
      if (!cut.refusal.empty()) continue;
      std::map<std::string, int> of_stages;
      const std::vector<ir::Model> stages = stages_of(model, {cut.position});
      for (int s = 0; s < 2; ++s) {
        for (const auto& [tensor, place] : ir::first_uses(stages[s])) {
          EXPECT_TRUE(of_stages.emplace(tensor, place).second) << tensor << " is in two stages";
          EXPECT_EQ(place >= cut.position, s == 1) << tensor;
        }
      }
      EXPECT_EQ(of_stages, whole) << name << " cut at " << cut.position;
    }
  }
}

TEST(Slice, TheEvalGraphIsCutWhereTheSameWeightsFallIntoTheSameStages) {
  ir::Model model = layers();
  model.eval.operators.erase(model.eval.operators.begin() + 1);  // eval does without the activation
  model.eval.operators[1].inputs[0].value = Ref{3};              // what the first layer makes
  const std::vector<ir::Model> stages = stages_of(model, {1});
  EXPECT_THAT(operator_names(stages[0].eval), ElementsAre("a"));
  EXPECT_THAT(operator_names(stages[1].eval), ElementsAre("c"));
  const Engine whole = Engine::create(model).value();
  std::vector<Engine> chain = engines(stages);
  const at::Tensor x = at::randn({3, 2});
  EXPECT_TRUE(at::equal(run_chain(chain, {x}, Mode::kEval)[0].toTensor(), whole.run(Mode::kEval, {x})[0].toTensor()));
}

TEST(Flow, KnowsWhoMakesAndReadsEachValue) {
  const ir::Model model = layers();
  const Flow flow = analyse_flow(model.train).value();
  EXPECT_EQ(flow.defined_at[2], -1) << "the input";
  EXPECT_EQ(flow.defined_at[3], 0);
  EXPECT_THAT(flow.used_at[3], ElementsAre(1));
  EXPECT_THAT(flow.used_at[5], ElementsAre(3)) << "the graph's output, behind the last operator";
  std::vector<std::int64_t> amounts(model.train.values.size(), 1);
  EXPECT_EQ(crossing_sums(model.train, flow, amounts)[2], 1);
  amounts[4] = 100;
  EXPECT_EQ(crossing_sums(model.train, flow, amounts)[2], 100);
  EXPECT_TRUE(flow.pure[0]);
}

}  // namespace
}  // namespace ravnest::graph
