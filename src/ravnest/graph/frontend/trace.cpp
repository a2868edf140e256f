#include "ravnest/graph/frontend/trace.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include "ravnest/graph/frontend/capture/capture.h"
#include "ravnest/graph/frontend/script/interpreter.h"

namespace ravnest::graph {
namespace {

namespace tracer = torch::jit::tracer;
using script::Item;

// Notices a forward that reads a tensor's data into C++, where no tracer can follow. Operators may do so inside.
//
// Whether two tensors are equal is asked by torch::nn's attention, to find out whether it was given one of them twice.
// That question is let through where the answer lies in the tensors themselves: they are one, or they differ.
class DataReads {
 public:
  DataReads() {
    depth() = 0;
    found().clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~DataReads() { at::removeCallback(handle_); }
  DataReads(const DataReads&) = delete;
  DataReads& operator=(const DataReads&) = delete;

  void refuse() const {
    if (found().empty()) return;
    throw script::Refusal{unsupported("the model's forward reads the data of a tensor (", found(),
                                      "), which a graph would fix at the example's value; use tensor operators")};
  }

 private:
  struct SameTensor : at::ObserverContext {};

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    if (depth()++ > 0) return nullptr;
    if (name == "aten::item" || name == "aten::is_nonzero" || name == "aten::_local_scalar_dense") found() = name;
    const auto inputs = function.inputs();
    if (name != "aten::equal" || !inputs[0].toTensor().is_same(inputs[1].toTensor())) return nullptr;
    return std::make_unique<SameTensor>();
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* same) {
    if (--depth() > 0 || std::string_view(function.name()) != "aten::equal") return;
    const bool equal = function.outputs().empty() || function.outputs().front().toBool();
    if (equal && same == nullptr) found() = "aten::equal";
  }

  // RecordFunction's callbacks are plain functions.
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
  static std::string& found() {
    thread_local std::string value;
    return value;
  }
  at::CallbackHandle handle_;
};

class Tracing {
 public:
  Tracing() : state_(std::make_shared<tracer::TracingState>()) {
    state_->warn = false;
    tracer::setTracingState(state_);
  }
  ~Tracing() { tracer::setTracingState(nullptr); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  void add_input(const at::Tensor& tensor) {
    torch::jit::Value* input = state_->graph->addInput();
    input->setType(c10::TensorType::get());
    if (!state_->hasValue(tensor)) state_->setValue(tensor, input);
  }

  std::shared_ptr<torch::jit::Graph> finish(const c10::IValue& outputs) {
    state_->graph->registerOutput(state_->getOutput(outputs, 0));
    return state_->graph;
  }

 private:
  std::shared_ptr<tracer::TracingState> state_;
};

// A graph whose inputs are the weights, then the tensors among the leaves.
std::shared_ptr<torch::jit::Graph> trace_graph(const Traceable& model, const script::Subject& subject,
                                               const script::Leaves& leaves) {
  const script::Untouched untouched(subject.weights);
  const DataReads reads;
  std::shared_ptr<torch::jit::Graph> graph;
  {
    Tracing tracing;
    for (const script::Weight& weight : subject.weights) tracing.add_input(weight.tensor);
    for (const c10::IValue& leaf : leaves)
      if (leaf.isTensor()) tracing.add_input(leaf.toTensor());
    graph = tracing.finish(model.forward(script::arguments_with(subject.example, leaves)));
  }
  reads.refuse();
  return graph;
}

script::Recording record(const Traceable& model, const script::Subject& subject, Mode mode,
                         const script::Leaves& leaves) {
  model.set_training(mode == Mode::kTrain);
  const std::shared_ptr<torch::jit::Graph> graph = trace_graph(model, subject, leaves);
  script::Recorder recorder(subject.weights, script::copies(subject.weights));
  std::vector<Item> inputs;
  for (std::size_t i = 0; i < subject.weights.size(); ++i) inputs.push_back(recorder.weight(i));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    Item item = recorder.input(subject.example.leaf_names[i], leaves[i]);
    if (leaves[i].isTensor()) inputs.push_back(std::move(item));
  }
  script::Interpreter interpreter(recorder, mode == Mode::kTrain, nullptr);
  const Item outputs = interpreter.run(*graph, std::move(inputs));
  return recorder.finish(outputs, subject.example.in_spec, subject.example.argument_names);
}

}  // namespace

Result<ir::Model> from_module(const Traceable& model, std::vector<c10::IValue> example_inputs,
                              std::vector<std::string> names, const Logger& log) {
  for (std::size_t i = names.size(); i < example_inputs.size(); ++i) names.push_back(text("input_", i));
  script::Subject subject;
  subject.example = script::make_example(std::move(example_inputs), std::move(names));
  for (const auto& [name, tensor] : model.parameters)
    subject.weights.push_back({name, tensor, ir::InputKind::kParameter, true});
  for (const auto& [name, tensor] : model.buffers)
    subject.weights.push_back({name, tensor, ir::InputKind::kBuffer, true});
  subject.records_sizes = false;
  subject.record = [&](Mode mode, const script::Leaves& leaves) { return record(model, subject, mode, leaves); };
  subject.run = [&](Mode mode, const script::Leaves& leaves) {
    model.set_training(mode == Mode::kTrain);
    return model.forward(script::arguments_with(subject.example, leaves));
  };
  return script::capture(subject, log);
}

}  // namespace ravnest::graph
