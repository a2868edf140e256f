#include "ravnest/graph/run/instruction.h"

#include <ATen/core/enum_tag.h>

#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/boxing.h"
#include "ravnest/graph/operators/operators.h"

namespace ravnest::graph {
namespace {

using c10::TypeKind;

class Maker {
 public:
  Maker(const ir::Graph& graph, const TensorIndex& tensors, c10::Device device)
      : graph_(graph), tensors_(tensors), device_(device), used_(graph.values.size(), false) {
    for (const ir::Argument& output : graph.outputs)
      ir::for_each_ref(output, [&](ir::Ref ref) { used_[ref.value] = true; });
  }

  Result<std::vector<Instruction>> make() {
    std::vector<Instruction> result(graph_.operators.size());
    // Backwards, so that the first use that is met is the last one.
    for (std::size_t i = graph_.operators.size(); i-- > 0;) {
      const ir::Operator& op = graph_.operators[i];
      if (Status status = fill(result[i], op); !status.ok()) return status.with_context(text("at \"", op.name, "\""));
      mark_last_uses(result[i]);
    }
    return result;
  }

 private:
  Status fill(Instruction& instruction, const ir::Operator& op) {
    instruction.op = &op;
    instruction.autocast = op.autocast;
    instruction.size_operator = find_size_operator(op.target);
    if (Status status =
            instruction.size_operator != nullptr ? fill_size_operands(instruction) : fill_operands(instruction);
        !status.ok())
      return status;
    return fill_outputs(instruction);
  }

  Operand reference(ir::Ref ref) const {
    const auto tensor = tensors_.find(ref.value);
    if (tensor != tensors_.end()) return {OperandKind::kTensor, false, tensor->second};
    return {OperandKind::kRegister, false, ref.value};
  }

  Status fill_size_operands(Instruction& instruction) const {
    const ir::Operator& op = *instruction.op;
    if (op.inputs.size() != instruction.size_operator->arity)
      return corrupt(op.target, " takes ", instruction.size_operator->arity, " arguments, not ", op.inputs.size());
    const bool of_tensor = op.target == "torch.ops.aten.sym_size.int";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const ir::Argument& argument = op.inputs[i].value;
      const bool wants_tensor = of_tensor && i == 0;
      if (const auto* ref = std::get_if<ir::Ref>(&argument)) {
        if ((graph_.values[ref->value].kind == ir::ValueKind::kTensor) != wants_tensor)
          return corrupt(op.target, ": argument ", i, " is of the wrong kind");
        instruction.operands.push_back(reference(*ref));
      } else if (wants_tensor) {
        return corrupt(op.target, ": argument ", i, " is not a tensor");
      } else if (const auto* flag = std::get_if<bool>(&argument)) {
        instruction.operands.push_back({OperandKind::kConstant, false, -1, c10::IValue(*flag)});
      } else if (const auto* integer = std::get_if<std::int64_t>(&argument)) {
        instruction.operands.push_back({OperandKind::kConstant, false, -1, c10::IValue(*integer)});
      } else if (const auto* number = std::get_if<double>(&argument)) {
        instruction.operands.push_back({OperandKind::kConstant, false, -1, c10::IValue(*number)});
      } else {
        return unsupported(op.target, ": argument ", i, " is not a number");
      }
    }
    return {};
  }

  Status fill_operands(Instruction& instruction) const {
    const ir::Operator& op = *instruction.op;
    const Result<c10::OperatorHandle> handle = find_operator(op.target);
    if (!handle.ok()) return handle.status();
    instruction.operation = *handle;
    if (op.target == "torch.ops.aten.view.default")
      instruction.reshape = *find_operator("torch.ops.aten.reshape.default");
    const auto is_true = [&](const char* flag) {
      const ir::Argument* value = find_argument(op, flag);
      return value != nullptr && *value == ir::Argument(true);
    };
    const bool dropout = op.target == "torch.ops.aten.dropout.default";
    instruction.dropout = dropout && is_true("train");
    // One that does not train draws nothing, and leaves the process's generator to those who do.
    instruction.random = handle->hasTag(at::Tag::nondeterministic_seeded) && (!dropout || instruction.dropout);
    instruction.normalises_batch = op.target == "torch.ops.aten.batch_norm.default" && is_true("training");
    const std::vector<c10::Argument>& declared = handle->schema().arguments();
    std::size_t given = 0;
    for (const c10::Argument& argument : declared) {
      const ir::Argument* value = find_argument(op, argument.name());
      given += value != nullptr ? 1 : 0;
      Result<Operand> made = value != nullptr ? operand(*value, argument) : by_default(argument);
      if (!made.ok()) return made.status().with_context(op.target);
      instruction.operands.push_back(std::move(*made));
    }
    if (given != op.inputs.size())
      return unsupported(op.target, " has an argument that this build of torch does not know");
    return {};
  }

  static Result<Operand> by_default(const c10::Argument& argument) {
    if (argument.default_value()) return Operand{OperandKind::kConstant, false, -1, *argument.default_value()};
    if (argument.type()->kind() == TypeKind::OptionalType) return Operand{};
    return corrupt("argument ", argument.name(), " is missing");
  }

  Result<Operand> operand(const ir::Argument& value, const c10::Argument& declared) const {
    const c10::TypePtr type = plain_type(declared);
    if (const auto* ref = std::get_if<ir::Ref>(&value)) return single(*ref, *type, declared);
    if (const auto* sizes = std::get_if<std::vector<ir::IntOrRef>>(&value)) return size_list(*sizes, *type, declared);
    if (const auto* refs = std::get_if<std::vector<ir::Ref>>(&value)) {
      return tensor_list(std::vector<std::optional<ir::Ref>>(refs->begin(), refs->end()), *type, declared);
    }
    if (const auto* refs = std::get_if<std::vector<std::optional<ir::Ref>>>(&value))
      return tensor_list(*refs, *type, declared);
    Result<c10::IValue> constant = box_constant(value, declared, device_);
    if (!constant.ok()) return constant.status();
    return Operand{OperandKind::kConstant, false, -1, std::move(*constant)};
  }

  Result<Operand> single(ir::Ref ref, const c10::Type& type, const c10::Argument& declared) const {
    Operand operand = reference(ref);
    const bool is_tensor = graph_.values[ref.value].kind == ir::ValueKind::kTensor;
    const bool wants_tensor = type.kind() == TypeKind::TensorType;
    if (is_tensor && !wants_tensor)
      return corrupt("argument ", declared.name(), " is a tensor where ", type.str(), " is wanted");
    if (!is_tensor && wants_tensor) operand.kind = OperandKind::kRegisterAsTensor;
    if (!is_tensor && type.kind() == TypeKind::FloatType) operand.kind = OperandKind::kRegisterAsFloat;
    if (!is_tensor && type.kind() == TypeKind::ListType) {
      Operand item = operand;
      operand = {OperandKind::kSizes, false, -1, {}, std::vector<Operand>(declared.N().value_or(1), item)};
    }
    return operand;
  }

  Result<Operand> size_list(const std::vector<ir::IntOrRef>& sizes, const c10::Type& type,
                            const c10::Argument& declared) const {
    const auto* list = type.castRaw<c10::ListType>();
    const bool whole = list != nullptr && (list->getElementType()->kind() == TypeKind::IntType ||
                                           list->getElementType()->kind() == TypeKind::SymIntType);
    if (!whole) return unsupported("argument ", declared.name(), ": sizes for ", type.str(), " are not supported");
    Operand operand{OperandKind::kSizes};
    for (const ir::IntOrRef& size : sizes) {
      if (const auto* number = std::get_if<std::int64_t>(&size))
        operand.items.push_back({OperandKind::kConstant, false, -1, c10::IValue(*number)});
      else
        operand.items.push_back(reference(std::get<ir::Ref>(size)));
    }
    return operand;
  }

  Result<Operand> tensor_list(const std::vector<std::optional<ir::Ref>>& refs, const c10::Type& type,
                              const c10::Argument& declared) const {
    const auto* list = type.castRaw<c10::ListType>();
    if (list == nullptr) return corrupt("argument ", declared.name(), " is a list where ", type.str(), " is wanted");
    const bool optional = list->getElementType()->kind() == TypeKind::OptionalType;
    Operand operand{optional ? OperandKind::kOptionalTensors : OperandKind::kTensors};
    for (const auto& ref : refs) {
      if (!ref && !optional) return corrupt("argument ", declared.name(), " has a None among its tensors");
      operand.items.push_back(ref ? reference(*ref) : Operand{});
    }
    return operand;
  }

  Status fill_outputs(Instruction& instruction) const {
    const ir::Operator& op = *instruction.op;
    const auto register_of = [&](ir::Ref ref) { return used_[ref.value] ? ref.value : -1; };
    for (const ir::Argument& output : op.outputs) {
      Output& made = instruction.outputs.emplace_back();
      if (const auto* ref = std::get_if<ir::Ref>(&output)) {
        made.index = register_of(*ref);
      } else if (const auto* refs = std::get_if<std::vector<ir::Ref>>(&output)) {
        made.is_list = true;
        for (const ir::Ref item : *refs) made.items.push_back(register_of(item));
      }
    }
    const std::size_t returned = instruction.operation ? instruction.operation->schema().returns().size() : 1;
    if (returned < op.outputs.size()) return corrupt(op.target, " returns fewer values than the graph says");
    return {};
  }

  // The operands are walked backwards, since a value may be given twice to one call.
  void mark_last_uses(Instruction& instruction) {
    const auto mark = [&](Operand& operand) {
      if (operand.kind == OperandKind::kConstant || operand.kind == OperandKind::kTensor || operand.index < 0) return;
      operand.last_use = !used_[operand.index];
      used_[operand.index] = true;
    };
    for (auto operand = instruction.operands.rbegin(); operand != instruction.operands.rend(); ++operand) {
      for (auto item = operand->items.rbegin(); item != operand->items.rend(); ++item) mark(*item);
      mark(*operand);
    }
  }

  const ir::Graph& graph_;
  const TensorIndex& tensors_;
  c10::Device device_;
  std::vector<bool> used_;  // by a later instruction or as a graph output
};

}  // namespace

Result<std::vector<Instruction>> make_instructions(const ir::Graph& graph, const TensorIndex& tensors,
                                                   c10::Device device) {
  return Maker(graph, tensors, device).make();
}

}  // namespace ravnest::graph
