#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <chrono>
#include <set>

#include "ravnest/graph/cost/memory_watch.h"
#include "ravnest/graph/cost/profile.h"
#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using TimePoint = std::chrono::steady_clock::time_point;

// Work on other devices is only begun when a call returns.
TimePoint finished(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(std::max<int>(device.index(), 0));
  return std::chrono::steady_clock::now();
}

double microseconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

void note_shape(Shapes& shapes, ir::ValueId value, const at::Tensor& tensor) {
  if (tensor.defined())
    shapes[value] = {from_torch(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec()};
}

// Times every operator and takes down the shapes of what it returns.
class Recorder : public RunObserver {
 public:
  Recorder(Shapes shapes, c10::Device device) : shapes_(std::move(shapes)), device_(device) {}

  void before(const ir::Operator& /*op*/, std::span<const IValue> /*arguments*/) override {
    start_ = finished(device_);
  }

  void after(const ir::Operator& op, std::span<const IValue> results) override {
    times_.push_back(microseconds(start_, finished(device_)));
    for (std::size_t i = 0; i < op.outputs.size() && i < results.size(); ++i) {
      if (const auto* ref = std::get_if<ir::Ref>(&op.outputs[i])) {
        if (results[i].isTensor()) note_shape(shapes_, ref->value, results[i].toTensor());
      } else if (const auto* refs = std::get_if<std::vector<ir::Ref>>(&op.outputs[i])) {
        const c10::List<at::Tensor> list = results[i].toTensorList();
        for (std::size_t k = 0; k < refs->size() && k < list.size(); ++k)
          note_shape(shapes_, (*refs)[k].value, list.get(k));
      }
    }
  }

  const Shapes& shapes() const { return shapes_; }
  const std::vector<double>& times() const { return times_; }

 private:
  Shapes shapes_;
  c10::Device device_;
  TimePoint start_;
  std::vector<double> times_;
};

// The parameters themselves and copies of everything else, since a training pass writes to buffers.
std::vector<at::Tensor> tensors_for_a_trial(const Engine& engine) {
  std::set<const void*> parameters;
  for (const auto& [name, tensor] : engine.parameters()) parameters.insert(tensor.unsafeGetTensorImpl());
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : engine.tensors())
    tensors.push_back(parameters.contains(tensor.unsafeGetTensorImpl()) ? tensor : tensor.clone());
  return tensors;
}

// A stage has to give gradients for what other stages send it.
std::vector<IValue> inputs_for_a_trial(const Engine& engine, const std::vector<IValue>& inputs) {
  std::vector<IValue> result = inputs;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!result[i].isTensor()) continue;
    at::Tensor tensor = result[i].toTensor().detach();
    const bool is_sent =
        engine.stage() && i < engine.stage()->train.inputs.size() && engine.stage()->train.inputs[i].stage >= 0;
    if (is_sent && (tensor.is_floating_point() || tensor.is_complex())) tensor.set_requires_grad(true);
    result[i] = std::move(tensor);
  }
  return result;
}

class Trial {
 public:
  Trial(const Engine& engine, const std::vector<IValue>& inputs)
      : engine_(engine), tensors_(tensors_for_a_trial(engine)), inputs_(inputs_for_a_trial(engine, inputs)) {
    std::set<const void*> seen;
    for (const at::Tensor& tensor : tensors_)
      if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) leaves_.push_back(tensor);
    for (const IValue& input : inputs_)
      if (input.isTensor() && input.toTensor().requires_grad()) leaves_.push_back(input.toTensor());
  }

  void run(RunObserver* observer) {
    const at::AutoGradMode gradients(true);
    const std::vector<std::size_t> uses_before = input_uses();
    RunOptions options;
    options.observer = observer;
    const MemoryWatch watch(engine_.device().type());
    const TimePoint start = finished(engine_.device());
    const std::vector<IValue> outputs = engine_.run(Mode::kTrain, tensors_, inputs_, options);
    const TimePoint middle = finished(engine_.device());
    saved_bytes = watch.live_bytes() + bytes_of_inputs_in_use(uses_before);
    backward(outputs);
    peak_bytes = watch.peak_bytes();
    forward_microseconds = microseconds(start, middle);
    backward_microseconds = microseconds(middle, finished(engine_.device()));
  }

  std::span<const IValue> inputs() const { return inputs_; }

  std::int64_t saved_bytes = 0;
  std::int64_t peak_bytes = 0;
  double forward_microseconds = 0;
  double backward_microseconds = 0;

 private:
  // Whoever keeps an input, or a view of it, holds its storage or the tensor itself.
  std::vector<std::size_t> input_uses() const {
    std::vector<std::size_t> uses;
    for (const IValue& input : inputs_)
      uses.push_back(input.isTensor() ? input.toTensor().use_count() + input.toTensor().storage().use_count() : 0);
    return uses;
  }

  std::int64_t bytes_of_inputs_in_use(const std::vector<std::size_t>& before) const {
    const std::vector<std::size_t> now = input_uses();
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i] > before[i]) bytes += static_cast<std::int64_t>(inputs_[i].toTensor().nbytes());
    return bytes;
  }

  void backward(const std::vector<IValue>& outputs) {
    std::vector<at::Tensor> roots;
    std::vector<at::Tensor> seeds;
    for (const IValue& output : outputs) {
      if (!output.isTensor() || !output.toTensor().requires_grad()) continue;
      roots.push_back(output.toTensor());
      seeds.push_back(at::ones_like(roots.back()));
    }
    if (roots.empty() || leaves_.empty()) return;
    torch::autograd::grad(roots, leaves_, seeds, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  }

  const Engine& engine_;
  std::vector<at::Tensor> tensors_;
  std::vector<IValue> inputs_;
  std::vector<at::Tensor> leaves_;
};

Shapes known_shapes(const ir::Graph& graph, std::span<const IValue> inputs) {
  Shapes shapes = evaluate_shapes(graph, symbol_values(graph, {}));
  std::size_t index = 0;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed) continue;
    if (input.value >= 0 && inputs[index].isTensor()) note_shape(shapes, input.value, inputs[index].toTensor());
    ++index;
  }
  return shapes;
}

}  // namespace

Result<Profile> profile_run(const Engine& engine, const std::vector<IValue>& inputs) {
  Trial trial(engine, inputs);
  trial.run(nullptr);
  Recorder recorder(known_shapes(engine.graph(Mode::kTrain), trial.inputs()), engine.device());
  trial.run(&recorder);
  Result<Profile> profile = profile_shapes(engine.model(), recorder.shapes());
  if (!profile.ok()) return profile;
  for (std::size_t i = 0; i < profile->operators.size(); ++i) profile->operators[i].microseconds = recorder.times()[i];
  sum_up(*profile);
  profile->saved_bytes = trial.saved_bytes;
  profile->peak_training_bytes =
      profile->parameter_bytes + profile->buffer_bytes + profile->input_bytes + trial.peak_bytes;
  profile->forward_microseconds = trial.forward_microseconds;
  profile->backward_microseconds = trial.backward_microseconds;
  return profile;
}

}  // namespace ravnest::graph
