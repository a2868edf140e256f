#include "ravnest/graph/frontend/torchscript.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "ravnest/graph/frontend/capture/capture.h"
#include "ravnest/graph/frontend/script/interpreter.h"
#include "ravnest/graph/run/random.h"

namespace ravnest::graph {
namespace {

using script::Item;
using torch::jit::Module;

// A module's modes and attributes, put back at the end: a forward may bind others. The value of a tensor that was bound
// anew goes into the tensor that was there before.
class SavedModule {
 public:
  explicit SavedModule(const Module& module) {
    for (const Module& each : module.modules()) {
      const auto object = each._ivalue();
      std::vector<c10::IValue> slots;
      for (std::size_t i = 0; i < object->type()->numAttributes(); ++i) slots.push_back(object->getSlot(i));
      saved_.emplace_back(object, std::move(slots));
    }
  }
  ~SavedModule() {
    for (auto& [object, slots] : saved_) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const c10::IValue now = object->getSlot(i);
        const bool other = now.isTensor() && slots[i].isTensor() && !now.toTensor().is_same(slots[i].toTensor());
        if (other) slots[i].toTensor().detach().copy_(now.toTensor().detach());
        object->setSlot(i, std::move(slots[i]));
      }
    }
  }
  SavedModule(const SavedModule&) = delete;
  SavedModule& operator=(const SavedModule&) = delete;

 private:
  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<c10::IValue>>> saved_;
};

const c10::FunctionSchema& forward_schema(const Module& module) {
  return module.get_method("forward").function().getSchema();
}

script::Recording record(const Module& module, const script::Subject& subject, std::optional<bool> training,
                         const script::Leaves& leaves) {
  script::Recorder recorder(subject.weights, script::copies(subject.weights));
  const auto weight_of = [&](const at::Tensor& tensor) {
    for (std::size_t i = 0; i < subject.weights.size(); ++i) {
      const at::Tensor& weight = subject.weights[i].tensor;
      const bool same = weight.is_same(tensor) ||
                        (tensor.numel() > 0 && weight.is_alias_of(tensor) && weight.sizes() == tensor.sizes() &&
                         weight.strides() == tensor.strides() && weight.storage_offset() == tensor.storage_offset());
      if (same) return recorder.weight(i);
    }
    return script::tensor(tensor);
  };
  script::Interpreter interpreter(recorder, training, weight_of);
  std::vector<Item> inputs = {interpreter.module_item(module._ivalue(), "")};
  for (Item& item : script::record_inputs(subject.example, leaves, recorder)) inputs.push_back(std::move(item));
  const std::vector<c10::Argument>& declared = forward_schema(module).arguments();
  for (std::size_t i = inputs.size(); i < declared.size(); ++i)
    inputs.push_back(script::from_constant(*declared[i].default_value()));
  const Item outputs = interpreter.call_method("forward", std::move(inputs));
  interpreter.write_back();
  return recorder.finish(outputs, subject.example.in_spec, subject.example.argument_names);
}

Result<script::Example> example_of(const Module& module, std::vector<c10::IValue> inputs) {
  if (!module.find_method("forward")) return invalid("the module has no method forward");
  const std::vector<c10::Argument>& declared = forward_schema(module).arguments();
  std::vector<std::string> names;
  for (std::size_t i = 1; i < declared.size(); ++i) {
    if (i <= inputs.size())
      names.push_back(declared[i].name());
    else if (!declared[i].default_value())
      return invalid("forward needs an example of its argument ", declared[i].name());
  }
  if (names.size() != inputs.size())
    return invalid("forward takes ", declared.size() - 1, " arguments, the example has ", inputs.size());
  return script::make_example(std::move(inputs), std::move(names));
}

Result<script::Subject> subject_of(const Module& module, std::vector<c10::IValue> example_inputs) {
  try {
    Result<script::Example> example = example_of(module, std::move(example_inputs));
    if (!example.ok()) return example.status();
    script::Subject subject;
    subject.example = std::move(*example);
    subject.weights = script::weights_of(module);
    return subject;
  } catch (const script::Refusal& refusal) {
    return refusal.status;
  }
}

}  // namespace

Result<ir::Model> from_script(const Module& module, std::vector<c10::IValue> example_inputs, const Logger& log) {
  Result<script::Subject> made = subject_of(module, std::move(example_inputs));
  if (!made.ok()) return made.status();
  script::Subject& subject = *made;
  subject.record = [&](Mode mode, const script::Leaves& leaves) {
    return record(module, subject, mode == Mode::kTrain, leaves);
  };
  subject.run = [&](Mode mode, const script::Leaves& leaves) {
    const SavedModule saved(module);
    Module own = module;  // a handle to the same module
    own.train(mode == Mode::kTrain);
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    return own.forward(script::arguments_with(subject.example, leaves));
  };
  return script::capture(subject, log);
}

Result<script::Recording> record_script(const Module& module, std::vector<c10::IValue> example_inputs) {
  const Result<script::Subject> subject = subject_of(module, std::move(example_inputs));
  if (!subject.ok()) return subject.status();
  KeyedGenerator generator(script::device_of(subject->weights), RandomKey{});
  generator.seed_for(0);  // takes the generator over, to give it back as it was
  const c10::AutoGradMode grad(true);
  try {
    return record(module, *subject, std::nullopt, script::leaves_at(subject->example, {}, 0));
  } catch (const script::Refusal& refusal) {
    return refusal.status;
  } catch (const std::exception& error) {
    return invalid(script::message_of(error));
  }
}

Result<ir::Model> load_script(const std::filesystem::path& path, std::vector<c10::IValue> example_inputs,
                              const Logger& log) {
  if (!std::filesystem::exists(path)) return not_found(path.string(), ": there is no such file");
  std::optional<Module> module;
  try {
    module = torch::jit::load(path.string(), c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    return corrupt(path.string(), ": not a TorchScript file: ", script::message_of(error));
  }
  Result<ir::Model> model = from_script(*module, std::move(example_inputs), log);
  if (!model.ok()) return model.status().with_context(path.string());
  return model;
}

}  // namespace ravnest::graph
