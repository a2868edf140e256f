// A captured model as plain data: what a `.pt2` archive says, with names resolved to indices and nothing of torch.
//
// A Graph is a list of operator calls in execution order over numbered values. Parameters, buffers and constants are
// inputs like the user's own; their tensors live beside the graph, in Model, so that one set of weights serves the
// training graph and the eval graph. Plain structs: whoever changes one keeps it well formed (`check` in verify.h).
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/base/dtype.h"

namespace ravnest::ir {

using ValueId = std::int32_t;

struct Ref {
  ValueId value = -1;
  bool operator==(const Ref&) const = default;
};

// A size: a number, or an expression over the symbols of the graph's inputs with its value at capture as the hint.
struct Size {
  std::int64_t hint = 0;
  std::string expression;  // empty: `hint` is the size
  bool symbolic() const { return !expression.empty(); }
  bool operator==(const Size&) const = default;
};

struct TensorMeta {
  DType dtype = DType::kFloat32;
  std::vector<Size> sizes;
  std::vector<Size> strides;
  Size storage_offset;
  bool requires_grad = false;
  Device device;
};

enum class ValueKind : std::uint8_t { kTensor, kSymInt, kSymFloat, kSymBool };

struct Value {
  std::string name;
  ValueKind kind = ValueKind::kTensor;
  TensorMeta tensor;                // kTensor
  std::string expression;           // the others
  std::optional<double> hint = {};  // the others: value at capture
};

struct None {
  bool operator==(const None&) const = default;
};
using IntOrRef = std::variant<std::int64_t, Ref>;

using Argument =
    std::variant<None, Ref, bool, std::int64_t, double, std::complex<double>, std::string, DType, MemoryFormat,
                 StridedLayout, Device, std::vector<bool>, std::vector<std::int64_t>, std::vector<double>,
                 std::vector<std::string>, std::vector<IntOrRef>, std::vector<Ref>, std::vector<std::optional<Ref>>>;

struct NamedArgument {
  std::string name;
  Argument value;
  bool keyword = false;
};

// One call of an operator: of torch's, which graph/operators finds as c10::OperatorHandle, or of arithmetic on sizes.
struct Operator {
  std::string name;
  std::string target;  // "torch.ops.aten.linear.default", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;  // Ref, list of Ref, or anything else for what the call returns and nobody reads
  std::string module_stack;       // torch's nn_module_stack text; may be empty
  // The operator's number in the whole model. Stages keep it: random numbers are keyed by it, so that a model gives
  // the same ones however it is cut.
  std::int32_t place = 0;
  std::int32_t autocast = -1;  // the innermost block of Graph::autocasts that it runs in; -1: none
};

// A `with torch.autocast(...)` block of the model's forward. Operators of a block stand together, but a graph may be
// cut inside of one: every stage has its part, and enters the block for itself.
struct Autocast {
  std::string device_type = "cpu";
  DType dtype = DType::kBFloat16;
  bool enabled = true;
  bool cache = true;         // a weight that is used twice is cast once
  std::int32_t parent = -1;  // the block around it, which comes before it in the list; -1: none
};

// "encoder.layers.0.fc": the innermost module that an operator was recorded in; "" for the model itself.
std::string module_path(const Operator& op);

enum class InputKind : std::uint8_t { kParameter, kBuffer, kConstant, kUser, kFixed };

struct Input {
  InputKind kind = InputKind::kUser;
  ValueId value = -1;      // all but kFixed
  std::string target;      // kParameter, kBuffer, kConstant: the tensor's name in Model; kFixed: the argument's name
  bool persistent = true;  // kBuffer: part of the state dict
  Argument fixed;          // kFixed: the number, string, bool or None that capture was given and baked in
};

struct SymbolRange {
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Operator> operators;
  std::vector<Input> inputs;  // parameters, buffers, constants, then the user's, in the order of the call
  std::vector<Argument> outputs;
  std::string in_spec;                   // pytree of (args, kwargs), as torch writes it
  std::string out_spec;                  // pytree of what the model returns
  std::string namedtuple_fields = "{}";  // JSON: what torch needs to rebuild named tuples of the specs
  std::vector<std::string> argument_names;
  std::map<std::string, SymbolRange> ranges;  // of the symbols
  std::vector<Autocast> autocasts = {};
};

// Where a stage's input comes from: output `index` of stage `stage`, or the model's own input where `stage` is -1.
struct Source {
  std::int32_t stage = -1;
  std::int32_t index = 0;
  bool operator==(const Source&) const = default;
};

struct Routing {
  std::vector<Source> inputs;                        // per user input
  std::vector<std::vector<std::int32_t>> consumers;  // per output: the stages that read it
  // Of the first stage, which hands on what the model is given:
  std::vector<std::vector<std::int32_t>> model_inputs = {};  // per input of the model: the later stages that read it
  std::vector<std::int32_t> without_inputs = {};             // later stages that read nothing at all
};

// How the whole model is called: the members of Graph.
struct Signature {
  std::string in_spec;
  std::string out_spec;
  std::vector<std::string> argument_names;
};

// What a stage's archive knows of the chain that it belongs to.
struct StageInfo {
  std::int32_t index = 0;
  std::int32_t count = 1;
  Routing train;
  Routing eval;
  std::map<std::string, std::vector<std::int32_t>> tied;  // weight -> the stages that use it, where more than one do
  // Of the whole model, the same in all stages:
  Signature train_call = {};
  Signature eval_call = {};
  std::vector<std::string> state_dict = {};  // its keys, in order
};

struct Model {
  Graph train;
  Graph eval;
  archive::NamedPayloads weights;    // parameters and persistent buffers, in the order of the state dict
  archive::NamedPayloads constants;  // tensor constants and buffers that are not part of the state dict
  std::optional<StageInfo> stage;
  // "bf16", "fp16": the graphs compute in the module's own types there, too, as was seen at the capture.
  std::vector<std::string> checked_precisions = {};
};

const archive::Payload* find_payload(const Model& model, const std::string& name, InputKind kind, bool persistent);

}  // namespace ravnest::ir
