#include "ravnest/strategy/chain.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/worker/testing/layers.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::strategy {
namespace {

using at::Tensor;
using c10::IValue;
using ir::Ref;
using ir::testing::dynamic;
using ir::testing::fixed;
using ir::testing::golden;
using ir::testing::ModelBuilder;
using ::testing::ElementsAre;
using worker::testing::kSeed;
using worker::testing::loss_of;
using worker::testing::Whole;

// Keeps the gradients, and writes down what it is told.
struct Watch final : ChainObserver {
  explicit Watch(const Chain& watched) : chain(watched), gradients(watched.parameters().size()) {}

  void before_forward(int unit) override { told.push_back(text("forward ", unit)); }
  void after_forward(int unit) override { told.push_back(text("forwarded ", unit)); }
  void before_backward(int unit) override { told.push_back(text("backward ", unit)); }
  void after_backward(int unit, std::span<Tensor> complete) override {
    told.push_back(text("complete ", unit));
    for (std::size_t i = 0; i < complete.size(); ++i) gradients[chain.parameters_of(unit)[i]] = complete[i];
  }

  const Chain& chain;
  std::vector<Tensor> gradients;
  std::vector<std::string> told;
};

struct Step {
  Tensor loss;
  std::vector<Tensor> gradients;
  std::vector<std::string> told;
};

Step step(const graph::Engine& engine, const Chain& chain, const std::vector<IValue>& inputs) {
  Watch watch(chain);
  graph::RunOptions options;
  options.random = graph::RandomKey{kSeed, 3};
  Chain::Pass pass = chain.forward(engine.tensors(), inputs, options, watch);
  const Tensor loss = loss_of(pass.outputs.at(0).toTensor());
  chain.backward(std::move(pass), loss, watch);
  return {loss, watch.gradients, watch.told};
}

std::vector<int> allowed_cuts(const ir::Model& model) {
  std::vector<int> allowed;
  const std::vector<graph::Cut> cuts = graph::possible_cuts(model).value();
  for (const graph::Cut& cut : cuts) {
    if (cut.refusal.empty()) allowed.push_back(cut.position);
  }
  return allowed;
}

// Every allowed cut by itself, and all that can be cut together.
void expect_as_uncut(const ir::Model& model, const std::vector<IValue>& inputs) {
  std::vector<std::vector<int>> choices = {{}};
  for (const int cut : allowed_cuts(model)) choices.push_back({cut});
  choices.push_back(graph::allowed_together(model, allowed_cuts(model)).value());
  for (const std::vector<int>& cuts : choices) {
    const Whole whole(model);
    const Tensor loss = whole.loss(3, inputs);
    const std::vector<Tensor> expected = whole.gradients(loss);
    const graph::Engine engine = graph::Engine::create(model).value();
    const Step ours = step(engine, Chain::cut(engine, cuts).value(), inputs);
    EXPECT_TRUE(at::equal(ours.loss, loss)) << cuts.size() << " cuts";
    ASSERT_EQ(ours.gradients.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(ours.gradients[i].defined(), expected[i].defined());
      const bool same = !expected[i].defined() || at::equal(ours.gradients[i], expected[i]);
      EXPECT_TRUE(same) << i << ", " << cuts.size() << " cuts";
    }
    for (std::size_t i = 0; i < engine.tensors().size(); ++i)
      EXPECT_TRUE(at::equal(engine.tensors()[i], whole.engine().tensors()[i])) << engine.names()[i];
  }
}

TEST(Chain, GivesLossGradientsAndBuffersOfTheUncutGraphAtEveryChoiceOfUnits) {
  at::manual_seed(1);
  expect_as_uncut(worker::testing::layers(), {at::randn({5, 2})});
  expect_as_uncut(ir::read_archive(golden("normalised")).value(), {at::randn({6, 4})});
}

TEST(Chain, AddsUpTheGradientsOfATiedWeightAsOneRecordDoes) {
  expect_as_uncut(ir::read_archive(golden("tied")).value(), {at::arange(10).reshape({2, 5}) % 6});
}

// Read three times behind the first cut, twice of them in one unit, and once more in the last: sums of floats, whose
// order shows.
TEST(Chain, AddsUpTheGradientsOfAValueWithManyReadersAsOneRecordDoes) {
  ModelBuilder builder;
  const ir::testing::Sizes sizes = {dynamic("s0"), fixed(8)};
  at::manual_seed(2);
  const Tensor values = at::randn({8, 8});
  const Ref w = builder.parameter("w", {8, 8}, {values.data_ptr<float>(), values.data_ptr<float>() + 64});
  const Ref x = builder.input("x", sizes);
  const auto call = [&](const std::string& name, const std::string& op, Ref self, std::optional<Ref> other = {}) {
    std::vector<ir::NamedArgument> inputs = {{"self", self}};
    if (other) inputs.push_back({"other", *other});
    return builder.call(name, "torch.ops.aten." + op, std::move(inputs), sizes);
  };
  const Ref a = builder.call("a", "torch.ops.aten.linear.default", {{"input", x}, {"weight", w}}, sizes);
  const Ref b = call("b", "tanh.default", a);
  const Ref c = call("c", "sin.default", a);
  const Ref d = call("d", "mul.Tensor", b, c);
  const Ref e = call("e", "mul.Tensor", d, a);
  const Ref f = call("f", "cos.default", e);
  expect_as_uncut(builder.returns({call("g", "mul.Tensor", f, a)}), {at::randn({64, 8})});
}

TEST(Chain, SaysWhenEachUnitRunsAndWhenItsGradientsAreComplete) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers()).value();
  const Chain chain = Chain::cut(engine, std::vector<int>{2}).value();
  ASSERT_EQ(chain.units(), 2);
  EXPECT_THAT(chain.parameters_of(0), ElementsAre(0));
  EXPECT_THAT(chain.parameters_of(1), ElementsAre(1));
  EXPECT_THAT(chain.parameters_of(chain.root()), ElementsAre());
  EXPECT_THAT(step(engine, chain, {at::randn({3, 2})}).told,
              ElementsAre("forward 0", "forwarded 0", "forward 1", "forwarded 1", "backward 1", "complete 1",
                          "backward 0", "complete 0", "complete 2"));
}

TEST(Chain, ATiedWeightBelongsToTheRootUnit) {
  const graph::Engine engine = graph::Engine::create(ir::read_archive(golden("tied")).value()).value();
  const Chain chain = Chain::cut(engine, std::vector<int>{1}).value();
  EXPECT_THAT(chain.parameters_of(chain.root()), ElementsAre(0));
  EXPECT_EQ(engine.names()[chain.parameters()[0]], "embed.weight");
}

TEST(Chain, AFrozenParameterIsNotAmongThoseThatAreTrained) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers(/*first_is_trained=*/false)).value();
  const Chain chain = Chain::cut(engine, std::vector<int>{2}).value();
  EXPECT_THAT(chain.parameters(), ElementsAre(1));
  EXPECT_TRUE(step(engine, chain, {at::randn({3, 2})}).gradients[0].defined());
}

TEST(Chain, RunsOnOtherTensorsThanTheEnginesOwn) {
  const graph::Engine engine = graph::Engine::create(worker::testing::layers()).value();
  const Chain chain = Chain::cut(engine, std::vector<int>{2}).value();
  std::vector<Tensor> halves;
  for (const Tensor& tensor : engine.tensors()) halves.push_back((tensor.detach() / 2).requires_grad_(true));
  Watch watch(chain);
  const Tensor x = at::randn({3, 2});
  Chain::Pass pass = chain.forward(halves, {x}, {}, watch);
  const Tensor expected = at::linear(at::tanh(at::linear(x, halves[0])), halves[1]);
  EXPECT_TRUE(at::equal(pass.outputs.at(0).toTensor(), expected));
  const Tensor loss = loss_of(pass.outputs.at(0).toTensor());
  chain.backward(std::move(pass), loss, watch);
  EXPECT_EQ(watch.gradients[0].sizes(), halves[0].sizes());
}

}  // namespace
}  // namespace ravnest::strategy
