// What workers compute, held to the bit against one process.
#include "ravnest/worker/model_worker.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/worker/testing/chain.h"
#include "ravnest/worker/testing/layers.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::worker {
namespace {

using ir::testing::golden;
using testing::Chain;
using ::testing::ElementsAre;
using testing::expect_same;
using ::testing::IsEmpty;
using testing::training_pass;
using testing::Whole;
using testing::with_criterion;
using wire::PassHead;
using wire::PassKind;

// A linear layer, batch norm with its statistics, an activation and dropout.
ir::Model normalised() { return ir::read_archive(golden("normalised")).value(); }

at::Tensor batch(std::uint64_t number, std::int64_t rows = 6) {
  return at::linspace(-1, 1, rows * 4).view({rows, 4}).roll(static_cast<std::int64_t>(number));
}

std::vector<int> allowed_cuts(const ir::Model& model) {
  std::vector<int> positions;
  const std::vector<graph::Cut> cuts = graph::possible_cuts(model).value();
  for (const graph::Cut& cut : cuts) {
    if (cut.refusal.empty()) positions.push_back(cut.position);
  }
  return positions;
}

// Its gradients before each update are kept.
ModelWorkerOptions watched(std::vector<std::vector<at::Tensor>>& gradients) {
  ModelWorkerOptions options = with_criterion();
  options.on_gradients = [&](std::vector<at::Tensor>& all) {
    std::vector<at::Tensor>& kept = gradients.emplace_back();
    for (const at::Tensor& each : all) kept.push_back(each.clone());
  };
  return options;
}

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], theirs[i])) << "gradient " << i;
}

void expect_trains_as_one_process(const std::vector<int>& cuts, bool recompute) {
  Whole whole(normalised());
  ModelWorkerOptions options = with_criterion();
  options.recompute = recompute;
  Chain chain(normalised(), cuts, options);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const at::Tensor inputs = batch(step, 6 + static_cast<std::int64_t>(step));
    const double loss = whole.train(step, {inputs});
    chain.train(step, {inputs});
    EXPECT_EQ(chain.report().loss, loss);
    EXPECT_EQ(chain.report().samples, 6 + step);
  }
  EXPECT_EQ(chain.reports().size(), 3U);
  expect_same(chain.tensors(), whole.tensors());
}

TEST(ModelWorker, StagesTrainAsOneProcessWhereverTheModelIsCut) {
  const std::vector<int> cuts = allowed_cuts(normalised());
  ASSERT_GE(cuts.size(), 3U);
  expect_trains_as_one_process({}, false);
  for (const int cut : cuts) expect_trains_as_one_process({cut}, false);
  expect_trains_as_one_process(cuts, false);
}

TEST(ModelWorker, RecomputingGivesTheSameNumbersAndCountsStatisticsOnce) {
  for (const int cut : allowed_cuts(normalised())) expect_trains_as_one_process({cut}, true);
}

// Pass 1 goes forward before the update by pass 0, and comes back after it.
void expect_backward_at_the_version_of_the_forward(bool recompute) {
  Whole whole(normalised());
  const std::vector<at::Tensor> first = whole.gradients(whole.loss(0, {batch(0)}));
  const std::vector<at::Tensor> second = whole.gradients(whole.loss(1, {batch(1)}));
  std::vector<std::vector<at::Tensor>> gradients;
  ModelWorkerOptions options = watched(gradients);
  options.recompute = recompute;
  Chain chain(normalised(), {allowed_cuts(normalised()).back()}, options);
  ASSERT_TRUE(chain.forward(training_pass(0), {batch(0)}).ok());
  ASSERT_TRUE(chain.forward(training_pass(1), {batch(1)}).ok());
  for (std::uint64_t pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(chain.backward(training_pass(pass)).ok());
    ASSERT_TRUE(chain.update(pass).ok());
    whole.step(pass == 0 ? first : second);
  }
  ASSERT_EQ(gradients.size(), 4U) << "two updates of two stages";
  EXPECT_THAT(gradients[0], IsEmpty()) << "the last stage has nothing to train";
  expect_equal(gradients[1], first);
  expect_equal(gradients[3], second);
  expect_same(chain.tensors(), whole.tensors());
  EXPECT_EQ(chain.worker(0).versions_most(), 2U);
  EXPECT_EQ(chain.worker(0).store().alive(), 1U) << "the last pass of a version frees it";
}

TEST(ModelWorker, APassGoesBackAtTheVersionThatItWentForwardWith) {
  expect_backward_at_the_version_of_the_forward(false);
}

TEST(ModelWorker, ARecomputedPassRunsAtTheVersionAndTheStatisticsThatItBeganWith) {
  expect_backward_at_the_version_of_the_forward(true);
}

TEST(ModelWorker, AnUpdateIsInPlaceWhileNoPassIsInFlight) {
  Chain chain(normalised(), {1}, with_criterion());
  const void* memory = chain.engine(0).tensors()[0].const_data_ptr();
  for (std::uint64_t step = 0; step < 2; ++step) chain.train(step, {batch(step)});
  EXPECT_EQ(chain.engine(0).tensors()[0].const_data_ptr(), memory);
  EXPECT_EQ(chain.worker(0).versions_most(), 1U);
}

TEST(ModelWorker, PartsOfABatchAddUpByTheirWeights) {
  Whole whole(normalised());
  std::vector<std::vector<at::Tensor>> gradients;
  Chain chain(normalised(), {1}, watched(gradients));
  const double weights[] = {0.25, 0.75};
  std::vector<at::Tensor> expected;
  for (std::uint32_t part = 0; part < 2; ++part) {
    PassHead head = training_pass(part);
    head.part = part;
    head.parts = 2;
    head.weight = weights[part];
    const at::Tensor inputs = batch(part, 2 + 2 * part);
    ASSERT_TRUE(chain.forward(head, {inputs}).ok());
    ASSERT_TRUE(chain.backward(head).ok());
    const at::Tensor loss = whole.loss(part, {inputs});
    EXPECT_EQ(chain.report().loss, loss.item<double>()) << "a report has the loss without the weight";
    std::vector<at::Tensor> own = whole.gradients(loss * weights[part]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (part == 0)
        expected.push_back(own[i]);
      else
        expected[i] += own[i];
    }
  }
  EXPECT_THAT(gradients, IsEmpty());
  ASSERT_TRUE(chain.update(0).ok());
  ASSERT_EQ(gradients.size(), 2U);
  std::vector<at::Tensor> all = gradients[1];
  all.insert(all.end(), gradients[0].begin(), gradients[0].end());
  expect_equal(all, expected);
}

TEST(ModelWorker, AValidationRunsTheEvalGraphAndChangesNothing) {
  const ir::Model model = testing::layers();
  const Whole whole(model);
  Chain chain(model, {1}, with_criterion());
  PassHead head = training_pass(0);
  head.kind = PassKind::kValidate;
  const at::Tensor inputs = at::linspace(-1, 1, 10).view({5, 2});
  ASSERT_TRUE(chain.forward(head, {inputs}).ok());
  const at::Tensor outputs = whole.engine().run(graph::Mode::kEval, {inputs}).at(0).toTensor();
  ASSERT_EQ(chain.reports().size(), 1U) << "there is no backward to wait for";
  EXPECT_EQ(chain.report().loss, testing::loss_of(outputs).item<double>());
  EXPECT_NE(chain.report().loss, whole.loss(0, {inputs}).item<double>());
  EXPECT_EQ(chain.report().samples, 5U);
  EXPECT_EQ(chain.report().correct, 2U);
  EXPECT_THAT(chain.report().outputs, IsEmpty());
  expect_same(chain.tensors(), whole.tensors());
}

TEST(ModelWorker, APredictionHandsTheOutputsOverAndAsksNoCriterion) {
  const ir::Model model = testing::layers();
  const Whole whole(model);
  Chain chain(model, {1}, {});
  PassHead head = training_pass(0);
  head.kind = PassKind::kPredict;
  const at::Tensor inputs = at::linspace(-1, 1, 10).view({5, 2});
  ASSERT_TRUE(chain.forward(head, {inputs}).ok());
  ASSERT_EQ(chain.report().outputs.size(), 1U);
  const at::Tensor outputs = from_wire(chain.report().outputs[0], at::kCPU).value();
  EXPECT_TRUE(at::equal(outputs, whole.engine().run(graph::Mode::kEval, {inputs}).at(0).toTensor()));
}

TEST(ModelWorker, TellsTheEpochBeforeAnUpdateAndTheCountAfterIt) {
  std::vector<std::string> told;
  ModelWorkerOptions options = with_criterion();
  options.before_update = [&](std::uint64_t epoch) { told.push_back(text("epoch ", epoch)); };
  options.on_update = [&](std::uint64_t updates) { told.push_back(text("updates ", updates)); };
  Chain chain(normalised(), {}, options);
  for (std::uint64_t step = 0; step < 2; ++step) {
    PassHead head = training_pass(step);
    head.epoch = 4 + step;
    ASSERT_TRUE(chain.forward(head, {batch(step)}).ok());
    ASSERT_TRUE(chain.backward(head).ok());
    ASSERT_TRUE(chain.update(step).ok());
  }
  EXPECT_THAT(told, ElementsAre("epoch 4", "updates 1", "epoch 5", "updates 2"));
}

}  // namespace
}  // namespace ravnest::worker
