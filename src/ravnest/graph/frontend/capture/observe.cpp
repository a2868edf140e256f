#include "ravnest/graph/frontend/capture/observe.h"

#include <algorithm>

#include "ravnest/graph/frontend/script/arguments.h"
#include "ravnest/graph/operators/tensors.h"
#include "ravnest/graph/run/executor.h"

namespace ravnest::graph::script {
namespace {

class Watcher : public RunObserver {
 public:
  explicit Watcher(std::vector<Seen>& seen) : seen_(seen) {}

  void before(const ir::Operator&, std::span<const c10::IValue>) override {}

  void after(const ir::Operator& op, std::span<const c10::IValue> results) override {
    for (std::size_t i = 0; i < op.outputs.size() && i < results.size(); ++i) {
      if (const auto* ref = std::get_if<ir::Ref>(&op.outputs[i])) {
        seen_[ref->value] = look_at(results[i]);
      } else if (const auto* refs = std::get_if<std::vector<ir::Ref>>(&op.outputs[i])) {
        const std::vector<at::Tensor> list = results[i].toTensorVector();
        for (std::size_t j = 0; j < refs->size() && j < list.size(); ++j)
          seen_[(*refs)[j].value] = look_at(c10::IValue(list[j]));
      }
    }
  }

 private:
  std::vector<Seen>& seen_;
};

}  // namespace

Seen look_at(const c10::IValue& value) {
  Seen seen;
  seen.defined = true;
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.layout() != at::kStrided) throw Refusal{unsupported("tensors that are not dense")};
    seen.sizes = tensor.sizes().vec();
    seen.strides = tensor.strides().vec();
    seen.offset = tensor.storage_offset();
    seen.dtype = from_torch(tensor.scalar_type());
    seen.device = std::get<Device>(constant_argument(tensor.device()));
    seen.requires_grad = tensor.requires_grad();
  } else if (value.isInt()) {
    seen.number = static_cast<double>(value.toInt());
  } else if (value.isDouble()) {
    seen.number = value.toDouble();
  } else if (value.isBool()) {
    seen.number = value.toBool() ? 1 : 0;
  } else {
    seen.defined = false;
  }
  return seen;
}

Result<std::vector<Seen>> observe(const ir::Graph& graph, const std::vector<std::string>& tensor_names,
                                  const std::vector<at::Tensor>& tensors, const Leaves& inputs, c10::Device device) {
  std::vector<Seen> seen(graph.values.size());
  std::size_t next = 0;
  for (const ir::Input& input : graph.inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) {
      if (input.value >= 0) seen[input.value] = look_at(inputs[next]);
      ++next;
      continue;
    }
    const auto name = std::find(tensor_names.begin(), tensor_names.end(), input.target);
    seen[input.value] = look_at(tensors[static_cast<std::size_t>(name - tensor_names.begin())]);
  }
  const Result<Executor> executor = Executor::compile(std::make_shared<ir::Graph>(graph), tensor_names, device);
  if (!executor.ok()) return executor.status();
  Watcher watcher(seen);
  RunOptions options;
  options.observer = &watcher;
  options.random = std::nullopt;  // a capture has taken the generator over
  try {
    executor->run(tensors, inputs, options);
  } catch (const std::exception& error) {
    return invalid(message_of(error));
  }
  return seen;
}

}  // namespace ravnest::graph::script
