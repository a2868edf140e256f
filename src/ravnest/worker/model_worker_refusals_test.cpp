// What a worker does not ask for, and what it refuses.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ravnest/worker/model_worker.h"
#include "ravnest/worker/testing/chain.h"
#include "ravnest/worker/testing/layers.h"
#include "ravnest/worker/testing/whole.h"

namespace ravnest::worker {
namespace {

using testing::adam;
using ::testing::AllOf;
using testing::Chain;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::layers;
using ::testing::Not;
using testing::training_pass;
using testing::Whole;
using testing::with_criterion;
using wire::PassHead;

at::Tensor five_rows() { return at::linspace(-1, 1, 10).view({5, 2}); }

Chain::Optimizers only_the_last_has_one() {
  Chain::Optimizers optimizers(2);
  optimizers[1] = adam();
  return optimizers;
}

wire::EdgeTensor edge(std::uint32_t index, const at::Tensor& tensor) {
  return {index, false, to_wire(tensor, {}, true)};
}

ModelWorkerOptions with_loss(const std::function<at::Tensor(const at::Tensor&)>& loss) {
  ModelWorkerOptions options;
  options.criterion = [loss](const PassHead&, const std::vector<c10::IValue>& outputs) {
    return CriterionResult{loss(outputs.at(0).toTensor()), 5, 0};
  };
  return options;
}

TEST(ModelWorker, AFrozenStageNeedsNoOptimizerAndIsSentNoGradients) {
  const ir::Model model = layers(/*first_is_trained=*/false);
  Whole whole(model);
  Chain chain(model, {1}, with_criterion(), only_the_last_has_one());
  for (std::uint64_t step = 0; step < 2; ++step) {
    whole.train(step, {five_rows()});
    chain.train(step, {five_rows()});
  }
  testing::expect_same(chain.tensors(), whole.tensors());

  const PassHead head = training_pass(2);
  auto sent = chain.worker(0).forward(head, {testing::model_inputs(head, {five_rows()})});
  ASSERT_TRUE(sent.ok()) << sent.status();
  auto& forward = std::get<wire::Forward>(sent->at(0).message);
  EXPECT_FALSE(forward.tensors.at(0).wants_gradient);
  ASSERT_TRUE(chain.worker(1).forward(head, {std::move(forward)}).ok());
  auto answered = chain.worker(1).backward(head, {}, {});
  ASSERT_TRUE(answered.ok()) << answered.status();
  const auto& backward = std::get<wire::Backward>(answered->at(0).message);
  EXPECT_THAT(backward.tensors, IsEmpty()) << "an answer goes out, since the stage waits for one";
}

TEST(ModelWorker, AStageToTrainWithoutAnOptimizerFailsAtItsFirstTrainingPass) {
  Chain chain(layers(), {1}, with_criterion(), Chain::Optimizers(2));
  PassHead head = training_pass(0);
  head.kind = wire::PassKind::kValidate;
  EXPECT_TRUE(chain.forward(head, {five_rows()}).ok());
  EXPECT_THAT(chain.forward(training_pass(1), {five_rows()}).message(),
              HasSubstr("the stage has 1 parameter to train and no optimizer"));
}

TEST(ModelWorker, WithoutMemoryItSaysWhatWasAskedForWhatThereIsAndWhatHelps) {
  const auto out_of_memory = [](const at::Tensor&) -> at::Tensor {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
                     "which 12.38 GiB is free. Process 7 has 66.77 GiB memory in use. If reserved but unallocated "
                     "memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True.");
  };
  Chain chain(layers(), {1}, with_loss(out_of_memory));
  EXPECT_EQ(chain.forward(training_pass(0), {five_rows()}).message(),
            "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 12.38 "
            "GiB is free. What helps: a smaller batch_size or more microbatches, recompute=True, a smaller stage on "
            "this node");
}

TEST(ModelWorker, WithoutMemoryOfTheHostItSaysSoToo) {
  Chain chain(layers(), {1}, with_loss([](const at::Tensor& y) { return y.sum() + at::empty({1L << 58}).sum(); }));
  EXPECT_THAT(chain.forward(training_pass(0), {five_rows()}).message(),
              AllOf(HasSubstr("out of memory: can't allocate memory: you tried to allocate 1152921504606846976 bytes"),
                    HasSubstr("What helps: a smaller batch_size")));
}

TEST(ModelWorker, WhatIsMissingOrNotReadHereIsRefused) {
  Chain chain(layers(), {1}, with_criterion());
  const PassHead head = training_pass(0);
  const auto refusal = [&](std::vector<wire::Forward> parts) {
    return chain.worker(1).forward(head, std::move(parts)).status().message();
  };
  EXPECT_THAT(refusal({}), HasSubstr("output 0 of stage 0 is missing in pass 0"));
  EXPECT_THAT(refusal({{head, 0, {edge(3, five_rows())}, {}}}),
              HasSubstr("stage 0 sent its output 3, which is not read here"));
  EXPECT_THAT(refusal({{head, 0, {}, {edge(0, five_rows())}}}),
              HasSubstr("input 0 of the model came, which is not read here"));
}

TEST(ModelWorker, AGradientOfAnOutputThatIsNotThereIsRefused) {
  Chain chain(layers(), {1}, with_criterion());
  const PassHead head = training_pass(0);
  ASSERT_TRUE(chain.forward(head, {five_rows()}).ok());
  EXPECT_THAT(chain.worker(0).backward(head, {{0, 1, {edge(1, five_rows())}}}, {}).status().message(),
              HasSubstr("stage 1 sent a gradient of output 1"));
}

// Two of other sizes would be added up to one as large as both together.
TEST(ModelWorker, AGradientOfOtherSizesThanTheOutputIsRefused) {
  Chain chain(layers(), {1}, with_criterion());
  const PassHead head = training_pass(0);
  ASSERT_TRUE(chain.forward(head, {five_rows()}).ok());
  const at::Tensor column = at::ones({5, 1});
  EXPECT_THAT(chain.worker(0).backward(head, {{0, 1, {edge(0, column)}}}, {}).status().message(),
              HasSubstr("stage 1 sent a gradient of output 0 in sizes [5, 1], the output is [5, 2]"));
}

TEST(ModelWorker, ACodecThatTheRunDidNotAgreeOnIsRefused) {
  Chain chain(layers(), {1}, with_criterion());
  const PassHead head = training_pass(0);
  const wire::EdgeTensor dense{0, false, to_wire(five_rows(), {codec::CodecKind::kTopK, 0.1}, true)};
  EXPECT_THAT(chain.worker(1).forward(head, {{head, 0, {dense}, {}}}).status().message(),
              HasSubstr("a tensor came as topk"));
}

TEST(ModelWorker, BytesThatAreNotWhatTheyClaimToBeAreRefused) {
  Chain chain(layers(), {1}, with_criterion());
  const PassHead head = training_pass(0);
  wire::EdgeTensor lying = edge(0, five_rows());
  lying.tensor.codec = codec::CodecKind::kFp16;
  EXPECT_EQ(chain.worker(1).forward(head, {{head, 0, {lying}, {}}}).status().code(), Code::kCorrupt);
}

TEST(ModelWorker, ALossThatNothingIsTrainedByIsRefusedWithWhatToLookFor) {
  const auto refusal = [](const ModelWorkerOptions& options) {
    return Chain(layers(), {1}, options).forward(training_pass(0), {five_rows()}).message();
  };
  EXPECT_THAT(refusal({}), HasSubstr("the last stage has no criterion"));
  EXPECT_THAT(refusal(with_loss([](const at::Tensor&) { return at::Tensor(); })),
              HasSubstr("the criterion must give a loss of one element, not none"));
  EXPECT_THAT(refusal(with_loss([](const at::Tensor& outputs) { return outputs.sum(0); })),
              HasSubstr("a loss of one element, not of the sizes [2]"));
  EXPECT_THAT(refusal(with_loss([](const at::Tensor& outputs) { return outputs.detach().sum(); })),
              HasSubstr("the criterion's loss has no gradient, though the model's outputs have one"));
  archive::Payload frozen = archive::testing::float_payload({2}, {3, 4});
  EXPECT_THAT(Chain(ir::testing::holder({{"w", frozen}}), {}, with_criterion())
                  .forward(training_pass(0), {at::ones({1})})
                  .message(),
              HasSubstr("neither the model's outputs nor the loss have a gradient"));
}

TEST(ModelWorker, ACriterionWithAParameterOfItsOwnIsRefused) {
  const at::Tensor own = at::ones({2}).requires_grad_(true);
  const ModelWorkerOptions options = with_loss([&](const at::Tensor& outputs) { return (outputs * own).sum(); });
  EXPECT_THAT(Chain(layers(), {1}, options).forward(training_pass(0), {five_rows()}).message(),
              HasSubstr("the criterion has 1 parameter of its own, of the sizes [2], which no optimizer would train"));
}

TEST(ModelWorker, ALossThatReachesNothingIsRefusedThoughItTakesAGradient) {
  const ModelWorkerOptions options =
      with_loss([](const at::Tensor& outputs) { return outputs.sum().detach().requires_grad_(); });
  EXPECT_THAT(Chain(layers(), {1}, options).forward(training_pass(0), {five_rows()}).message(),
              HasSubstr("the gradient of the criterion's loss does not reach the model's outputs"));
}

TEST(ModelWorker, AnErrorOfTorchComesInItsOwnWordsWithoutItsStack) {
  const ModelWorkerOptions options =
      with_loss([](const at::Tensor& outputs) { return at::matmul(outputs, at::ones({7})).sum(); });
  const Status failed = Chain(layers(), {1}, options).forward(training_pass(0), {five_rows()});
  EXPECT_EQ(failed.code(), Code::kInternal);
  EXPECT_THAT(failed.message(), AllOf(HasSubstr("size mismatch"), Not(HasSubstr("frame #"))));
}

TEST(ModelWorker, AnErrorOfTorchOfSeveralLinesIsOneSentence) {
  const ModelWorkerOptions options = with_loss([](const at::Tensor&) -> at::Tensor {
    TORCH_CHECK(false, "CUDA error: device-side assert triggered\nFor debugging pass CUDA_LAUNCH_BLOCKING=1\n");
  });
  const Status failed = Chain(layers(), {1}, options).forward(training_pass(0), {five_rows()});
  EXPECT_THAT(failed.message(), HasSubstr("assert triggered; For debugging pass CUDA_LAUNCH_BLOCKING=1"));
  EXPECT_THAT(failed.message(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace ravnest::worker
