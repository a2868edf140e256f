#include "ravnest/train/loop/evaluate.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>

#include "ravnest/archive/array.h"
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

void add(Sums& sums, const graph::Engine& engine, const data::Dataset& batch, std::size_t judged, const Loss& loss) {
  const auto outputs = engine.run(graph::Mode::kEval, {batch.inputs.to(engine.device())});
  TORCH_CHECK(judged < outputs.size() && outputs[judged].isTensor(), "the model's output is not a tensor");
  const at::Tensor& output = outputs[judged].toTensor();
  const at::Tensor target = batch.targets.to(output.device());
  const auto [correct, counted] = correct_of(output, target);
  sums.correct += correct;
  sums.counted += counted;
  sums.loss += loss(output, target).item<double>() * static_cast<double>(batch.size());
}

std::string shown(const archive::Payload& payload) {
  return text(dtype_name(payload.dtype), " ", archive::shown(payload.sizes));
}

}  // namespace

Result<Evaluation> evaluate(const graph::Engine& engine, const BatchedData& data, LossKind loss, const Poll& poll) {
  const ir::Signature call = worker::stage_of(engine).eval_call;
  if (Status one = check_one_input(call); !one.ok()) return one;
  const auto judged = judged_output(call);
  if (!judged.ok()) return judged.status();
  const auto function = make_loss(name(loss));
  if (!function.ok()) return function.status();
  const at::NoGradGuard without_gradients;
  Sums sums;
  try {
    for (std::int64_t i = 0; i < data.batches.per_epoch(); ++i) {
      if (Status polled = poll ? poll() : Status(); !polled.ok()) return polled;
      add(sums, engine, data.batch(0, static_cast<std::uint64_t>(i)), *judged, *function);
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

Status replace_weights(ir::Model& model, const archive::NamedPayloads& values, std::string_view what) {
  constexpr std::string_view kStrangers = ": they do not belong together";
  std::map<std::string_view, const archive::Payload*> given;
  for (const auto& [name, payload] : values) given[name] = &payload;
  archive::NamedPayloads replaced = model.weights;
  for (auto& [name, own] : replaced) {
    const auto found = given.find(name);
    if (found == given.end()) return invalid(what, " has no ", name, ", which the model has", kStrangers);
    archive::Payload value = *found->second;
    if (value.dtype != own.dtype || value.sizes != own.sizes)
      return invalid(name, " is ", shown(value), " in ", what, " and ", shown(own), " in the model", kStrangers);
    value.requires_grad = own.requires_grad;
    value.is_parameter = own.is_parameter;
    own = std::move(value);
    given.erase(found);
  }
  if (!given.empty()) return invalid(what, " has ", given.begin()->first, ", which the model has not", kStrangers);
  model.weights = std::move(replaced);
  return {};
}

}  // namespace ravnest::train
