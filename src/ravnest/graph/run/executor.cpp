#include "ravnest/graph/run/executor.h"

#include <ATen/core/List.h>
#include <ATen/core/stack.h>

#include <algorithm>

#include "ravnest/graph/operators/boxing.h"
#include "ravnest/graph/run/autocast.h"
#include "ravnest/graph/run/dropout.h"
#include "ravnest/graph/run/input_check.h"
#include "ravnest/graph/run/instruction.h"

namespace ravnest::graph {

struct Executor::Plan {
  std::shared_ptr<const ir::Graph> graph;
  std::size_t tensor_count = 0;
  TensorIndex tensors;
  InputCheck check;
  std::vector<Instruction> instructions;
  std::vector<std::int32_t> input_registers;  // per user input; -1: fixed, not read
  c10::Device device;
  std::vector<AutocastBlock> autocasts;
};

namespace {

using c10::IValue;
using Frame = std::vector<IValue>;

class Run {
 public:
  Run(std::span<const at::Tensor> tensors, Frame& frame) : tensors_(tensors), frame_(frame) {}

  void push(const Operand& operand) {
    switch (operand.kind) {
      case OperandKind::kConstant: stack_.push_back(operand.constant); return;
      case OperandKind::kTensor: stack_.emplace_back(tensors_[operand.index]); return;
      case OperandKind::kRegister: stack_.push_back(take(operand)); return;
      case OperandKind::kRegisterAsTensor: stack_.emplace_back(wrapped_number(take(operand))); return;
      case OperandKind::kRegisterAsFloat: {
        const IValue value = take(operand);
        stack_.emplace_back(value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt()));
        return;
      }
      case OperandKind::kSizes: stack_.emplace_back(sizes(operand)); return;
      case OperandKind::kTensors: stack_.emplace_back(tensor_list(operand)); return;
      case OperandKind::kOptionalTensors: stack_.emplace_back(optional_tensors(operand)); return;
    }
  }

  torch::jit::Stack& stack() { return stack_; }

  void keep(const std::vector<Output>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = outputs[i];
      if (output.is_list)
        keep_list(output, stack_[i]);
      else if (output.index >= 0)
        frame_[output.index] = std::move(stack_[i]);
    }
    stack_.clear();
  }

 private:
  IValue take(const Operand& operand) {
    IValue& value = frame_[operand.index];
    return operand.last_use ? std::move(value) : value;
  }

  at::Tensor tensor(const Operand& item) {
    return item.kind == OperandKind::kTensor ? tensors_[item.index] : take(item).toTensor();
  }

  c10::List<std::int64_t> sizes(const Operand& operand) {
    c10::List<std::int64_t> list;
    list.reserve(operand.items.size());
    for (const Operand& item : operand.items)
      list.push_back(item.kind == OperandKind::kConstant ? item.constant.toInt() : take(item).toInt());
    return list;
  }

  c10::List<at::Tensor> tensor_list(const Operand& operand) {
    c10::List<at::Tensor> list;
    list.reserve(operand.items.size());
    for (const Operand& item : operand.items) list.push_back(tensor(item));
    return list;
  }

  c10::List<std::optional<at::Tensor>> optional_tensors(const Operand& operand) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(operand.items.size());
    for (const Operand& item : operand.items)
      list.push_back(item.kind == OperandKind::kConstant ? std::nullopt : std::optional(tensor(item)));
    return list;
  }

  void keep_list(const Output& output, const IValue& value) {
    TORCH_CHECK(value.isTensorList(), "a list of tensors was expected as result");
    const c10::List<at::Tensor> list = value.toTensorList();
    TORCH_CHECK(list.size() == output.items.size(), "the operator returned ", list.size(), " tensors, ",
                output.items.size(), " were captured; the graph cannot take this input size");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (output.items[i] >= 0) frame_[output.items[i]] = IValue(list.get(i));
    }
  }

  std::span<const at::Tensor> tensors_;
  Frame& frame_;
  torch::jit::Stack stack_;
};

void check_batch(const IValue& input) {
  const at::Tensor& tensor = input.toTensor();
  TORCH_CHECK(tensor.dim() < 2 || tensor.size(1) == 0 || tensor.numel() / tensor.size(1) > 1,
              "batch normalisation in training needs more than one value per channel, got input of size ",
              tensor.sizes(), "; drop the last, short batch or use larger ones");
}

bool drop_out(const RandomKey& key, const Instruction& instruction, torch::jit::Stack& stack) {
  const at::Tensor& input = stack[0].toTensor();
  const double p = stack[1].toDouble();
  if (!input.is_cpu() || !input.is_floating_point() || !(p >= 0 && p <= 1)) return false;  // torch's own says why
  at::Tensor output = keyed_dropout(input, p, operator_key(key, instruction.op->place));
  stack.clear();
  stack.emplace_back(std::move(output));
  return true;
}

void call(const Instruction& instruction, torch::jit::Stack& stack) {
  if (instruction.size_operator != nullptr) {
    IValue result = instruction.size_operator->call(stack);
    stack.clear();
    stack.push_back(std::move(result));
    return;
  }
  if (instruction.normalises_batch) check_batch(stack.front());
  const bool copy = instruction.reshape && !stack.front().toTensor().is_contiguous();
  (copy ? *instruction.reshape : *instruction.operation).callBoxed(&stack);
}

std::string describe(const ir::Operator& op) {
  const std::string module = ir::module_path(op);
  return text("while running operator \"", op.name, "\" (", op.target, ")",
              module.empty() ? "" : " of module " + module);
}

}  // namespace

Executor::Executor(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

const ir::Graph& Executor::graph() const { return *plan_->graph; }

Result<Executor> Executor::compile(std::shared_ptr<const ir::Graph> graph, const std::vector<std::string>& tensor_names,
                                   c10::Device device) {
  TensorIndex tensors;
  std::vector<std::int32_t> input_registers;
  for (const ir::Input& input : graph->inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) {
      input_registers.push_back(input.value);
      continue;
    }
    const auto found = std::find(tensor_names.begin(), tensor_names.end(), input.target);
    if (found == tensor_names.end()) return internal("no tensor \"", input.target, "\" was given for the graph");
    tensors[input.value] = static_cast<std::int32_t>(found - tensor_names.begin());
  }
  Result<std::vector<Instruction>> instructions = make_instructions(*graph, tensors, device);
  if (!instructions.ok()) return instructions.status();
  Result<std::vector<AutocastBlock>> autocasts = resolve_autocasts(*graph, device);
  if (!autocasts.ok()) return autocasts.status();
  auto plan = std::unique_ptr<Plan>(new Plan{graph, tensor_names.size(), std::move(tensors), InputCheck(*graph),
                                             std::move(*instructions), std::move(input_registers), device,
                                             std::move(*autocasts)});
  return Executor(std::move(plan));
}

std::vector<IValue> Executor::run(std::span<const at::Tensor> tensors, std::vector<IValue> inputs,
                                  const RunOptions& options) const {
  const Plan& plan = *plan_;
  TORCH_CHECK(tensors.size() == plan.tensor_count, "the graph takes ", plan.tensor_count, " tensors, ", tensors.size(),
              " were given");
  plan.check(inputs, options.any_floating_type);
  Frame frame(plan.graph->values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (plan.input_registers[i] >= 0) frame[plan.input_registers[i]] = std::move(inputs[i]);
  }
  inputs.clear();
  std::optional<KeyedGenerator> generator;
  if (options.random) generator.emplace(plan.device, *options.random);

  Run run(tensors, frame);
  AutocastPosition autocast(plan.autocasts);
  for (const Instruction& instruction : plan.instructions) {
    try {
      if (instruction.autocast != autocast.block()) autocast.move_to(instruction.autocast);
      for (const Operand& operand : instruction.operands) run.push(operand);
      if (options.observer != nullptr) options.observer->before(*instruction.op, run.stack());
      if (!instruction.dropout || !options.random || !drop_out(*options.random, instruction, run.stack())) {
        if (instruction.random && options.random) generator->seed_for(instruction.op->place);
        call(instruction, run.stack());
      }
      if (options.observer != nullptr) options.observer->after(*instruction.op, run.stack());
      run.keep(instruction.outputs);
    } catch (c10::Error& error) {
      error.add_context(describe(*instruction.op));
      throw;
    }
  }

  std::vector<IValue> outputs;
  outputs.reserve(plan.graph->outputs.size());
  for (const ir::Argument& output : plan.graph->outputs) {
    if (const auto* ref = std::get_if<ir::Ref>(&output)) {
      const auto tensor = plan.tensors.find(ref->value);
      outputs.push_back(tensor != plan.tensors.end() ? IValue(tensors[tensor->second]) : frame[ref->value]);
    } else if (const auto* flag = std::get_if<bool>(&output)) {
      outputs.emplace_back(*flag);
    } else if (const auto* integer = std::get_if<std::int64_t>(&output)) {
      outputs.emplace_back(*integer);
    } else if (const auto* number = std::get_if<double>(&output)) {
      outputs.emplace_back(*number);
    } else if (const auto* string = std::get_if<std::string>(&output)) {
      outputs.emplace_back(*string);
    } else {
      outputs.emplace_back();
    }
  }
  return outputs;
}

}  // namespace ravnest::graph
