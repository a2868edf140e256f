#include "ravnest/graph/cost/profile.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/testing/models.h"

namespace ravnest::graph {
namespace {

using ir::testing::golden;
using ::testing::HasSubstr;

// linear, batch norm, relu, dropout.
Engine load() {
  Result<Engine> engine = Engine::load(golden("normalised"));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return std::move(*engine);
}

ir::SymbolValues batch_of(const Engine& engine, std::int64_t size) {
  for (const ir::Input& input : engine.graph(Mode::kTrain).inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    return {{ir::bare_symbol(engine.graph(Mode::kTrain).values[input.value].tensor.sizes[0]), size}};
  }
  return {};
}

std::int64_t width(const Engine& engine) { return engine.parameters().front().second.size(0); }

TEST(Profile, SavedBytesAreWhatAutogradKeeps) {
  const Engine engine = load();
  const std::int64_t batch = 6;
  const std::int64_t activation = 4 * batch * width(engine);
  const Profile profile = profile_shapes(engine.model(), batch_of(engine, batch)).value();
  // The input, for the linear layer; its result and two statistics, for the norm; relu's result; dropout's mask; and
  // the model's output.
  EXPECT_EQ(profile.saved_bytes, 4 * batch * 4 + 4 * activation + 2 * 4 * width(engine));
  EXPECT_EQ(profile_run(engine, {at::randn({batch, 4})}).value().saved_bytes, profile.saved_bytes);
}

TEST(Profile, TheSumsBeforeACutAreThoseOfItsOperators) {
  const Engine engine = load();
  const Profile profile = profile_shapes(engine.model()).value();
  ASSERT_EQ(profile.cuts.size() + 1, profile.operators.size());
  std::int64_t flops = 0;
  std::int64_t parameters = 0;
  for (const CutProfile& cut : profile.cuts) {
    flops += profile.operators[cut.position - 1].forward_flops;
    parameters += profile.operators[cut.position - 1].parameter_bytes;
    EXPECT_EQ(cut.forward_flops, flops);
    EXPECT_EQ(cut.parameter_bytes, parameters);
  }
}

TEST(Profile, MeasuringLeavesBuffersAndGradientsAsTheyWere) {
  const Engine engine = load();
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : engine.tensors()) before.push_back(tensor.detach().clone());
  const Profile profile = profile_run(engine, {at::randn({6, 4})}).value();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(engine.tensors()[i], before[i])) << engine.names()[i];
    EXPECT_FALSE(engine.tensors()[i].grad().defined());
  }
  EXPECT_GT(profile.backward_microseconds, 0);
  EXPECT_GT(profile.peak_training_bytes, profile.parameter_bytes + profile.gradient_bytes + profile.saved_bytes);
}

TEST(Profile, ASizeThatTheModelDoesNotHaveIsRefused) {
  const Result<Profile> profile = profile_shapes(load().model(), {{"batch", 4}});
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.status().code(), Code::kInvalid);
  EXPECT_THAT(profile.status().message(), HasSubstr("no size named batch"));
}

}  // namespace
}  // namespace ravnest::graph
