#include "ravnest/worker/model_worker.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "ravnest/graph/run/differentiate.h"
#include "ravnest/stage/routes.h"
#include "ravnest/worker/out_of_memory.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::worker {
namespace {

using at::Tensor;
using c10::IValue;
using graph::Mode;
using graph::tensors_of;
using wire::PassHead;
using wire::PassKind;

constexpr const char* kWhatHelpsMemory =
    "a smaller batch_size or more microbatches, recompute=True, a smaller stage on this node";

template <class Compute>
Result<std::vector<Outgoing>> plainly(const Compute& compute) {
  try {
    return compute();
  } catch (const c10::Error& error) {
    return torch_failure(error, kWhatHelpsMemory);
  }
}

wire::Report report_of(const PassHead& head, const CriterionResult& result) {
  return {.pass = head.pass,
          .loss = result.loss.defined() ? result.loss.item<double>() : 0,
          .samples = result.samples,
          .correct = result.correct,
          .outputs = {}};
}

}  // namespace

ir::StageInfo stage_of(const graph::Engine& engine) {
  return engine.stage() ? *engine.stage() : stage::stage_of(engine.model());
}

ModelWorker::ModelWorker(const graph::Engine& engine, std::unique_ptr<optim::Optimizer> optimizer,
                         ModelWorkerOptions options)
    : engine_(engine),
      stage_(stage_of(engine)),
      place_(stage::stage_options(stage_)),
      options_(std::move(options)),
      criterion_(options_.criterion),
      optimizer_(std::move(optimizer)),
      store_(engine.tensors()),
      tied_(stage_, engine.names(), store_),
      snapshots_(engine, store_, tied_.keepers(), options_.criterion_state, options_.on_snapshot),
      gradients_(store_.parameters().size()) {
  if (options_.recompute || options_.averaging != nullptr) written_buffers_ = engine.written_buffers();
  if (options_.averaging != nullptr)
    averaging_groups_.emplace(options_.averaging_groups, engine.names(), engine.tensors(), written_buffers_, store_);
  if (averaging_groups_) options_.averaging->begin_with(averaging_groups_->values(store_, nullptr), {});
}

// Without an optimizer the weights would never move. Said at the first pass, when all nodes are there to hear it.
Status ModelWorker::can_train() const {
  const std::size_t count = store_.parameters().size();
  if (optimizer_ || count == 0) return {};
  return invalid("the stage has ", count, count == 1 ? " parameter" : " parameters",
                 " to train and no optimizer: give Node optimizer= on every node; to keep a stage as it is, freeze its "
                 "parameters (requires_grad_(False)) before clusterize");
}

bool ModelWorker::is_leaf() const { return stage_.index + 1 == stage_.count; }

const stage::Neighbours& ModelWorker::neighbours(PassKind kind) const {
  return kind == PassKind::kTrain ? place_.train : place_.evaluate;
}

const ir::Routing& ModelWorker::routing(PassKind kind) const {
  return kind == PassKind::kTrain ? stage_.train : stage_.eval;
}

wire::Tensor ModelWorker::packed(const Tensor& tensor) const {
  return to_wire(tensor, options_.codec, options_.host_memory);
}

Result<std::vector<Outgoing>> ModelWorker::forward(const PassHead& head, std::vector<wire::Forward> parts) {
  return plainly([&] { return run_forward(head, std::move(parts)); });
}

Result<std::vector<Outgoing>> ModelWorker::backward(const PassHead& head, std::vector<wire::Backward> answers,
                                                    std::vector<wire::TiedTensors> tied) {
  return plainly([&] { return run_backward(head, std::move(answers), std::move(tied)); });
}

Result<std::vector<Outgoing>> ModelWorker::update(const Update& update, std::vector<wire::TiedTensors> tied) {
  return plainly([&] { return run_update(update, std::move(tied)); });
}

// -- forward

Result<std::vector<Outgoing>> ModelWorker::run_forward(const PassHead& head, std::vector<wire::Forward> parts) {
  const bool trains = head.kind == PassKind::kTrain;
  if (trains) {
    if (Status able = can_train(); !able.ok()) return able;
  }
  Pass pass;
  pass.inputs.resize(routing(head.kind).inputs.size());
  pass.wanted.resize(pass.inputs.size());
  for (const wire::Forward& part : parts) {
    if (Status status = place(part, routing(head.kind), pass); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    const ir::Source& source = routing(head.kind).inputs[i];
    if (pass.inputs[i].isNone() && source.stage >= 0) {
      return invalid("output ", source.index, " of stage ", source.stage, " is missing in pass ", head.pass);
    }
  }
  // Held until the backward: updates in between make new versions beside this one, and leave what autograd has recorded
  // here as it is.
  pass.version = store_.newest();
  // Not on the leaf: its backward follows the forward, so running it again would free nothing. (Of gpipe it would, but
  // the loss, and with it the criterion, would have to run again too.)
  const bool again = trains && options_.recompute && !is_leaf();
  if (again) {
    // The forward moves statistics, such as those of batch norm. The second run has to begin with what the first one
    // found, and must not move them once more: it is given these copies.
    for (const std::size_t i : written_buffers_) pass.buffers.push_back(engine_.tensors()[i].clone());
  }
  std::vector<IValue> outputs;
  {
    const at::AutoGradMode with_gradients(trains && !again);
    outputs = trains ? run_training(head, pass, pass.version->tensors)
                     : engine_.run(Mode::kEval, pass.version->tensors, pass.inputs);
  }
  std::vector<Outgoing> outgoing;
  if (is_leaf()) {
    auto result = criterion_(head, outputs);
    if (!result.ok()) return result.status();
    pass.result = std::move(*result);
    if (trains) {
      if (criterion_.is_new()) {
        if (Status checked = check_leaves(pass); !checked.ok()) return checked;
      }
      // A part of a batch counts by its share of the samples, so that the parts' gradients add up to the batch's.
      const Tensor& loss = pass.result.loss;
      pass.outputs = {head.weight == 1 ? loss : loss * head.weight};
    } else {
      wire::Report report = report_of(head, pass.result);
      for (const Tensor& output : tensors_of(outputs)) {
        if (head.kind == PassKind::kPredict && output.defined())
          report.outputs.push_back(to_wire(output, {}, options_.host_memory));
      }
      outgoing.push_back({0, std::move(report)});
    }
  } else {
    auto sent = send_on(head, outputs, parts);
    if (!sent.ok()) return sent.status();
    outgoing = std::move(*sent);
    if (!again) pass.outputs = tensors_of(outputs);
  }
  // No backward comes for what does not train: nothing of it may stay.
  if (trains) passes_.emplace(head.pass, std::move(pass));
  return outgoing;
}

Status ModelWorker::check_leaves(const Pass& pass) {
  std::vector<Tensor> known = pass.version->parameters;
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    if (pass.wanted[i]) known.push_back(pass.inputs[i].toTensor());
  }
  return criterion_.check_leaves(pass.result.loss, known);
}

Status ModelWorker::place(const wire::Forward& part, const ir::Routing& routing, Pass& pass) const {
  const auto put = [&](const wire::EdgeTensor& edge, const ir::Source& source) -> Status {
    const auto found = std::ranges::find(routing.inputs, source);
    if (found == routing.inputs.end()) {
      if (source.stage < 0 && stage_.index == 0) return {};  // for later stages
      return source.stage < 0
                 ? invalid("input ", source.index, " of the model came, which is not read here")
                 : invalid("stage ", source.stage, " sent its output ", source.index, ", which is not read here");
    }
    auto tensor = from_wire(edge.tensor, engine_.device(), options_.codec);
    if (!tensor.ok()) return tensor.status();
    const auto i = static_cast<std::size_t>(found - routing.inputs.begin());
    pass.wanted[i] = edge.wants_gradient;
    pass.inputs[i] = graph::detached(*tensor, edge.wants_gradient);
    return {};
  };
  for (const wire::EdgeTensor& edge : part.tensors) {
    Status status = put(edge, {static_cast<std::int32_t>(part.stage), static_cast<std::int32_t>(edge.index)});
    if (!status.ok()) return status;
  }
  for (const wire::EdgeTensor& edge : part.model_inputs) {
    if (Status status = put(edge, {-1, static_cast<std::int32_t>(edge.index)}); !status.ok()) return status;
  }
  return {};
}

std::vector<IValue> ModelWorker::run_training(const PassHead& head, const Pass& pass,
                                              std::span<const Tensor> tensors) const {
  graph::RunOptions options;
  options.random = graph::RandomKey{options_.seed, head.step};
  return engine_.run(Mode::kTrain, tensors, pass.inputs, options);
}

Result<std::vector<Outgoing>> ModelWorker::send_on(const PassHead& head, const std::vector<IValue>& outputs,
                                                   const std::vector<wire::Forward>& parts) const {
  const ir::Routing& routes = routing(head.kind);
  std::map<int, wire::Forward> forwards;
  for (const int consumer : neighbours(head.kind).consumers) {
    forwards[consumer] = {
        .head = head, .stage = static_cast<std::uint32_t>(stage_.index), .tensors = {}, .model_inputs = {}};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (routes.consumers[i].empty()) continue;
    if (!outputs[i].isTensor()) return unsupported("output ", i, " of the stage is not a tensor and cannot be sent");
    const Tensor& output = outputs[i].toTensor();
    // Run again before its backward, it has a gradient then if anything that it depends on takes one.
    const bool wants_gradient =
        output.requires_grad() || (options_.recompute && at::isFloatingType(output.scalar_type()));
    const wire::EdgeTensor edge{static_cast<std::uint32_t>(i), head.kind == PassKind::kTrain && wants_gradient,
                                packed(output)};
    for (const int consumer : routes.consumers[i]) forwards.at(consumer).tensors.push_back(edge);
  }
  for (const wire::Forward& part : parts) {
    for (const wire::EdgeTensor& input : part.model_inputs) {
      if (stage_.index != 0 || input.index >= routes.model_inputs.size()) continue;
      for (const int consumer : routes.model_inputs[input.index]) forwards.at(consumer).model_inputs.push_back(input);
    }
  }
  std::vector<Outgoing> outgoing;
  for (auto& [consumer, forward] : forwards) outgoing.push_back({consumer, std::move(forward)});
  return outgoing;
}

// -- backward

Result<std::vector<Outgoing>> ModelWorker::run_backward(const PassHead& head, std::vector<wire::Backward> answers,
                                                        std::vector<wire::TiedTensors> tied) {
  // It is there: the stage's machine asks for no backward before its forward, and for each once.
  Pass pass = std::move(passes_.extract(head.pass).mapped());
  if (options_.recompute && !is_leaf()) recompute(head, pass);
  auto incoming = sum_answers(pass, answers);
  if (!incoming.ok()) return incoming.status();
  graph::Roots roots;
  for (std::size_t i = 0; i < pass.outputs.size(); ++i) {
    if (is_leaf())
      roots.add_loss(pass.outputs[i]);
    else
      roots.add(pass.outputs[i], (*incoming)[i]);
  }
  // From here on only autograd holds activations, and lets go of each as soon as it has passed it. That is the peak of
  // a step's memory, so no copy of a reference may outlive this line.
  pass.outputs.clear();
  incoming->clear();
  if (ties_pass_by_pass(options_.schedule)) {
    auto later = tied_.sum(std::move(tied), pass.version->parameters, options_.codec);
    if (!later.ok()) return later.status();
    // Backward begins at the weight itself with what later stages found: autograd then adds the uses here to it one by
    // one, which is the order of one process.
    for (std::size_t i = 0; i < later->size(); ++i) roots.add(pass.version->parameters[i], (*later)[i]);
  }
  std::vector<Tensor> sources;
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    if (pass.wanted[i]) sources.push_back(pass.inputs[i].toTensor());
  }
  const std::size_t inputs = sources.size();
  sources.insert(sources.end(), pass.version->parameters.begin(), pass.version->parameters.end());
  std::vector<Tensor> gradients = roots.gradients_of(sources);
  std::vector<Outgoing> outgoing = answer(head, pass, std::span(gradients).first(inputs));
  const std::span<Tensor> own = std::span(gradients).subspan(inputs);
  if (ties_pass_by_pass(options_.schedule)) send_tied(own, head.pass, outgoing);
  add_gradients(own);
  epoch_ = head.epoch;
  if (is_leaf()) outgoing.push_back({0, report_of(head, pass.result)});
  return outgoing;
}

void ModelWorker::recompute(const PassHead& head, Pass& pass) const {
  std::vector<Tensor> tensors = pass.version->tensors;
  for (std::size_t i = 0; i < written_buffers_.size(); ++i) tensors[written_buffers_[i]] = pass.buffers[i];
  const at::AutoGradMode with_gradients(true);
  pass.outputs = tensors_of(run_training(head, pass, tensors));
}

Result<std::vector<Tensor>> ModelWorker::sum_answers(const Pass& pass, std::vector<wire::Backward>& answers) const {
  std::vector<Tensor> sums(pass.outputs.size());
  // The last stage first: as one process would add them up.
  std::ranges::sort(answers, std::greater(), &wire::Backward::stage);
  for (const wire::Backward& part : answers) {
    for (const wire::EdgeTensor& edge : part.tensors) {
      if (edge.index >= sums.size()) return invalid("stage ", part.stage, " sent a gradient of output ", edge.index);
      const Tensor& output = pass.outputs[edge.index];
      if (!output.defined() || !has_sizes(edge.tensor, output.sizes())) {
        return invalid("stage ", part.stage, " sent a gradient of output ", edge.index, " in sizes ",
                       at::IntArrayRef(edge.tensor.shape), ", the output is ",
                       output.defined() ? text(output.sizes()) : "no tensor");
      }
      auto gradient = from_wire(edge.tensor, engine_.device(), options_.codec);
      if (!gradient.ok()) return gradient.status();
      Tensor& sum = sums[edge.index];
      sum = sum.defined() ? sum + *gradient : std::move(*gradient);
    }
  }
  return sums;
}

// A Backward for each producer, with the gradients of what it sent. Also an empty one: a producer counts the answers of
// all who read its outputs, and nothing else tells it that this pass is through here.
std::vector<Outgoing> ModelWorker::answer(const PassHead& head, const Pass& pass, std::span<Tensor> gradients) const {
  std::map<int, wire::Backward> answers;
  for (const int producer : neighbours(head.kind).producers) {
    answers[producer] = {.pass = head.pass, .stage = static_cast<std::uint32_t>(stage_.index), .tensors = {}};
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    if (!pass.wanted[i]) continue;
    Tensor gradient = std::move(gradients[next++]);
    const ir::Source& source = routing(head.kind).inputs[i];
    if (!gradient.defined() || source.stage < 0) continue;
    answers.at(source.stage).tensors.push_back({static_cast<std::uint32_t>(source.index), false, packed(gradient)});
  }
  std::vector<Outgoing> outgoing;
  for (auto& [producer, backward] : answers) outgoing.push_back({producer, std::move(backward)});
  return outgoing;
}

void ModelWorker::add_gradients(std::span<Tensor> gradients) {
  const at::NoGradGuard without_gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Tensor& sum = gradients_[i];
    // The first is taken over without a copy where autograd made it for us alone (own_gradient looks).
    if (sum.defined())
      sum.add_(gradients[i]);
    else
      sum = graph::own_gradient(std::move(gradients[i]), store_.parameters()[i]);
  }
}

}  // namespace ravnest::worker
