#include "ravnest/train/loop/evaluate.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "ravnest/stage/routes.h"
#include "ravnest/train/loop/losses.h"
#include "ravnest/train/loop/model_call.h"

namespace ravnest::train {
namespace {

struct Sums {
  double loss = 0;
  std::uint64_t correct = 0;
  std::uint64_t counted = 0;
};

void add(Sums& sums, const graph::Engine& engine, const data::Dataset& batch, std::size_t scored, const Loss& loss) {
  const auto outputs = engine.run(graph::Mode::kEval, {batch.inputs.to(engine.device())});
  TORCH_CHECK(scored < outputs.size() && outputs[scored].isTensor(), "the model's output is not a tensor");
  const at::Tensor& output = outputs[scored].toTensor();
  const at::Tensor target = batch.targets.to(output.device());
  const auto [correct, counted] = correct_of(output, target);
  sums.correct += correct;
  sums.counted += counted;
  sums.loss += loss(output, target).item<double>() * static_cast<double>(batch.size());
}

}  // namespace

Result<Evaluation> evaluate(const graph::Engine& engine, const BatchedData& data, LossKind loss, const Poll& poll) {
  const ir::Signature call = worker::stage_of(engine).eval_call;
  if (Status one = check_one_input(call); !one.ok()) return one;
  const auto scored = criterion_output(call);
  if (!scored.ok()) return scored.status();
  const auto function = make_loss(name(loss));
  if (!function.ok()) return function.status();
  const at::NoGradGuard without_gradients;
  Sums sums;
  try {
    for (std::int64_t i = 0; i < data.batches.per_epoch(); ++i) {
      if (Status polled = poll ? poll() : Status(); !polled.ok()) return polled;
      add(sums, engine, data.batch(0, static_cast<std::uint64_t>(i)), *scored, *function);
    }
  } catch (const c10::Error& error) {
    return invalid("the model, the data and the loss ", name(loss),
                   " do not fit each other: ", error.what_without_backtrace());
  }
  Evaluation result;
  result.samples = static_cast<std::uint64_t>(data.samples.size());
  result.loss = sums.loss / static_cast<double>(result.samples);
  if (sums.counted > 0) result.accuracy = 100.0 * static_cast<double>(sums.correct) / static_cast<double>(sums.counted);
  return result;
}

}  // namespace ravnest::train
