// An operator made ready to run: what Executor::compile produces and Executor::run walks. Private to the executor.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"
#include "ravnest/graph/operators/size_operators.h"

namespace ravnest::graph {

enum class OperandKind : std::uint8_t {
  kConstant,
  kTensor,            // one of the tensors that run() is given
  kRegister,          // a value of this run
  kRegisterAsTensor,  // a number where a tensor is wanted
  kRegisterAsFloat,   // a whole number where a float is wanted
  kSizes,             // numbers, some of them computed
  kTensors,           // a list of tensors
  kOptionalTensors,
};

struct Operand {
  OperandKind kind = OperandKind::kConstant;
  bool last_use = false;    // kRegister: nobody reads the value after this operand
  std::int32_t index = -1;  // kTensor, kRegister*: which
  c10::IValue constant = {};
  std::vector<Operand> items = {};  // the lists' elements
};

struct Output {
  std::int32_t index = -1;  // register; -1: dropped
  bool is_list = false;
  std::vector<std::int32_t> items = {};  // of a list; -1: dropped
};

struct Instruction {
  const ir::Operator* op = nullptr;
  const SizeOperator* size_operator = nullptr;  // arithmetic on sizes; else:
  std::optional<c10::OperatorHandle> operation = {};
  std::optional<c10::OperatorHandle> reshape = {};  // for a view: what to call where the strides do not allow one
  std::int32_t autocast = -1;                       // the operator's
  bool random = false;
  bool dropout = false;           // aten::dropout in training: keyed runs have a faster one of their own
  bool normalises_batch = false;  // in training: needs more than one value per channel
  std::vector<Operand> operands = {};
  std::vector<Output> outputs = {};
};

// Where the tensors that are not the user's come from: value -> index in the list that run() is given.
using TensorIndex = std::unordered_map<ir::ValueId, std::int32_t>;

Result<std::vector<Instruction>> make_instructions(const ir::Graph& graph, const TensorIndex& tensors,
                                                   c10::Device device);

}  // namespace ravnest::graph
