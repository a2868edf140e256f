#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/graph/ir/archive/blocks.h"
#include "ravnest/graph/ir/archive/program.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;

constexpr int kAtenOpset = 10;

json device_to_json(const Device& device) {
  return {{"type", device.type}, {"index", device.index ? json(*device.index) : json(nullptr)}};
}

std::string_view symbol_tag(ValueKind kind) {
  switch (kind) {
    case ValueKind::kSymFloat: return "as_sym_float";
    case ValueKind::kSymBool: return "as_sym_bool";
    default: return "as_sym_int";
  }
}

class ProgramEncoder {
 public:
  explicit ProgramEncoder(const Graph& graph) : graph_(graph), blocks_(graph) {}

  json encode() const {
    json ranges = json::object();
    for (const auto& [symbol, range] : graph_.ranges)
      ranges[symbol] = {{"min_val", range.min ? json(*range.min) : json(nullptr)},
                        {"max_val", range.max ? json(*range.max) : json(nullptr)}};
    return {{"graph_module", graph_module()},
            {"opset_version", {{"aten", kAtenOpset}}},
            {"range_constraints", std::move(ranges)},
            {"schema_version", {{"major", kSchemaMajor}, {"minor", kSchemaMinor}}},
            {"verifiers", json::array({"TRAINING"})},
            {"torch_version", "2.13.0"},
            {"guards_code", json::array()}};
  }

 private:
  const std::string& name(Ref ref) const { return graph_.values[ref.value].name; }
  json tensor(Ref ref) const { return {{"name", name(ref)}}; }

  json operator()(None) const { return {{"as_none", true}}; }
  json operator()(Ref ref) const {
    const ValueKind kind = graph_.values[ref.value].kind;
    if (kind == ValueKind::kTensor) return {{"as_tensor", tensor(ref)}};
    return {{symbol_tag(kind), {{"as_name", name(ref)}}}};
  }
  json operator()(bool value) const { return {{"as_bool", value}}; }
  json operator()(std::int64_t value) const { return {{"as_int", value}}; }
  json operator()(double value) const { return {{"as_float", number_to_json(value)}}; }
  json operator()(std::complex<double> value) const {
    return {{"as_complex", {{"real", number_to_json(value.real())}, {"imag", number_to_json(value.imag())}}}};
  }
  json operator()(const std::string& value) const { return {{"as_string", value}}; }
  json operator()(DType value) const { return {{"as_scalar_type", schema_number(value)}}; }
  json operator()(MemoryFormat value) const { return {{"as_memory_format", schema_number(value)}}; }
  json operator()(StridedLayout value) const { return {{"as_layout", schema_number(value)}}; }
  json operator()(const Device& value) const { return {{"as_device", device_to_json(value)}}; }
  json operator()(const std::vector<bool>& values) const { return {{"as_bools", values}}; }
  json operator()(const std::vector<std::int64_t>& values) const { return {{"as_ints", values}}; }
  json operator()(const std::vector<std::string>& values) const { return {{"as_strings", values}}; }
  json operator()(const std::vector<double>& values) const {
    json list = json::array();
    for (const double value : values) list.push_back(number_to_json(value));
    return {{"as_floats", std::move(list)}};
  }
  json operator()(const std::vector<IntOrRef>& values) const {
    json list = json::array();
    for (const IntOrRef& value : values) {
      if (const auto* number = std::get_if<std::int64_t>(&value))
        list.push_back({{"as_int", *number}});
      else
        list.push_back({{"as_name", name(std::get<Ref>(value))}});
    }
    return {{"as_sym_ints", std::move(list)}};
  }
  json operator()(const std::vector<Ref>& values) const {
    json list = json::array();
    for (const Ref value : values) list.push_back(tensor(value));
    return {{"as_tensors", std::move(list)}};
  }
  json operator()(const std::vector<std::optional<Ref>>& values) const {
    json list = json::array();
    for (const auto& value : values) list.push_back(value ? json{{"as_tensor", tensor(*value)}} : (*this)(None{}));
    return {{"as_optional_tensors", std::move(list)}};
  }

  json argument(const Argument& value) const {
    return std::visit([&](const auto& alternative) { return (*this)(alternative); }, value);
  }

  json input_spec(const Input& input) const {
    const json arg = input.kind == InputKind::kFixed ? json() : tensor(Ref{input.value});
    switch (input.kind) {
      case InputKind::kParameter: return {{"parameter", {{"arg", arg}, {"parameter_name", input.target}}}};
      case InputKind::kBuffer:
        return {{"buffer", {{"arg", arg}, {"buffer_name", input.target}, {"persistent", input.persistent}}}};
      case InputKind::kConstant: return {{"tensor_constant", {{"arg", arg}, {"tensor_constant_name", input.target}}}};
      case InputKind::kFixed: return {{"constant_input", {{"name", input.target}, {"value", argument(input.fixed)}}}};
      case InputKind::kUser: break;
    }
    return {{"user_input", {{"arg", (*this)(Ref{input.value})}}}};
  }

  json node(const Operator& op) const {
    json inputs = json::array();
    for (const NamedArgument& input : op.inputs)
      inputs.push_back({{"name", input.name}, {"arg", argument(input.value)}, {"kind", input.keyword ? 2 : 1}});
    json outputs = json::array();
    for (const Argument& output : op.outputs) outputs.push_back(argument(output));
    json metadata = json::object();
    if (!op.module_stack.empty()) metadata["nn_module_stack"] = op.module_stack;
    return {{"target", op.target},
            {"inputs", std::move(inputs)},
            {"outputs", std::move(outputs)},
            {"metadata", std::move(metadata)},
            {"is_hop_single_tensor_return", nullptr},
            {"name", op.name}};
  }

  // {"as_expr": {"expr_str": ..., "hint": {"as_int": 4}}}
  static json symbol(const Value& value) {
    json hint = nullptr;
    if (value.hint) {
      if (value.kind == ValueKind::kSymBool)
        hint = {{"as_bool", *value.hint != 0}};
      else if (value.kind == ValueKind::kSymFloat)
        hint = {{"as_float", number_to_json(*value.hint)}};
      else
        hint = {{"as_int", static_cast<std::int64_t>(*value.hint)}};
    }
    if (value.expression.empty()) return hint;  // a plain number
    return {{"as_expr", {{"expr_str", value.expression}, {"hint", std::move(hint)}}}};
  }

  json empty_graph() const {
    return {{"tensor_values", json::object()},
            {"sym_int_values", json::object()},
            {"sym_float_values", json::object()},
            {"sym_bool_values", json::object()},
            {"custom_obj_values", json::object()},
            {"is_single_tensor_return", false},
            {"inputs", json::array()},
            {"outputs", json::array()},
            {"nodes", json::array()}};
  }

  static void declare(json& graph, const Value& value) {
    switch (value.kind) {
      case ValueKind::kTensor: graph["tensor_values"][value.name] = tensor_meta_to_json(value.tensor); break;
      case ValueKind::kSymInt: graph["sym_int_values"][value.name] = symbol(value); break;
      case ValueKind::kSymFloat: graph["sym_float_values"][value.name] = symbol(value); break;
      case ValueKind::kSymBool: graph["sym_bool_values"][value.name] = symbol(value); break;
    }
  }

  json graph() const {
    json result = empty_graph();
    const std::vector<bool> hidden = blocks_.hidden();
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (!hidden[i]) declare(result, graph_.values[i]);
    }
    for (const Input& input : graph_.inputs)
      result["inputs"].push_back(input.kind == InputKind::kFixed ? argument(input.fixed) : (*this)(Ref{input.value}));
    add_nodes(result, {-1, 0, graph_.operators.size()});
    for (const Argument& output : graph_.outputs) result["outputs"].push_back(argument(output));
    return result;
  }

  void add_nodes(json& graph, const BlockPart& part) const {
    blocks_.for_each(
        part, [&](const Operator& each) { graph["nodes"].push_back(node(each)); },
        [&](const BlockPart& inner) { graph["nodes"].push_back(autocast(inner)); });
  }

  // The graph inside of the block uses the names of the one around it.
  json autocast(const BlockPart& part) const {
    const Autocast& block = graph_.autocasts[part.block];
    const std::string number = std::to_string(part.begin);
    json graph = empty_graph();
    for (const ValueId value : blocks_.values(part)) declare(graph, graph_.values[value]);
    json inputs = json::array();
    const auto add_input = [&](json value) {
      inputs.push_back({{"name", ""}, {"arg", std::move(value)}, {"kind", 1}});
    };
    add_input((*this)(block.device_type));
    add_input((*this)(block.dtype));
    add_input((*this)(block.enabled));
    add_input((*this)(block.cache));
    add_nodes(graph, part);
    for (const ValueId value : blocks_.operands(part)) graph["inputs"].push_back((*this)(Ref{value}));
    for (const ValueId value : blocks_.results(part)) graph["outputs"].push_back((*this)(Ref{value}));
    const json operands = graph["inputs"], results = graph["outputs"];
    add_input({{"as_graph", {{"name", "autocast_block_" + number}, {"graph", std::move(graph)}}}});
    for (const json& operand : operands) add_input(operand);
    const std::string& stack = graph_.operators[part.begin].module_stack;
    return {{"target", kAutocastTarget},
            {"inputs", std::move(inputs)},
            {"outputs", results},
            {"metadata", stack.empty() ? json::object() : json{{"nn_module_stack", stack}}},
            {"is_hop_single_tensor_return", false},
            {"name", "autocast_" + number}};
  }

  json graph_module() const {
    json input_specs = json::array();
    for (const Input& input : graph_.inputs) input_specs.push_back(input_spec(input));
    json output_specs = json::array();
    for (const Argument& output : graph_.outputs)
      output_specs.push_back({{"user_output", {{"arg", argument(output)}}}});
    const Result<json> fields = parse_json(graph_.namedtuple_fields, "namedtuple fields");
    return {{"graph", graph()},
            {"signature", {{"input_specs", std::move(input_specs)}, {"output_specs", std::move(output_specs)}}},
            {"module_call_graph", json::array({{{"fqn", ""},
                                                {"signature",
                                                 {{"inputs", json::array()},
                                                  {"outputs", json::array()},
                                                  {"in_spec", graph_.in_spec},
                                                  {"out_spec", graph_.out_spec},
                                                  {"forward_arg_names", graph_.argument_names}}}}})},
            {"metadata", json::object()},
            {"treespec_namedtuple_fields", fields.ok() ? *fields : json::object()}};
  }

  const Graph& graph_;
  Blocks blocks_;
};

}  // namespace

json size_to_json(const Size& size) {
  if (!size.symbolic()) return {{"as_int", size.hint}};
  return {{"as_expr", {{"expr_str", size.expression}, {"hint", {{"as_int", size.hint}}}}}};
}

json tensor_meta_to_json(const TensorMeta& meta) {
  json sizes = json::array();
  for (const Size& size : meta.sizes) sizes.push_back(size_to_json(size));
  json strides = json::array();
  for (const Size& stride : meta.strides) strides.push_back(size_to_json(stride));
  return {{"dtype", schema_number(meta.dtype)},      {"sizes", std::move(sizes)},
          {"requires_grad", meta.requires_grad},     {"device", device_to_json(meta.device)},
          {"strides", std::move(strides)},           {"storage_offset", size_to_json(meta.storage_offset)},
          {"layout", schema_number(StridedLayout{})}};
}

json encode_program(const Graph& graph) { return ProgramEncoder(graph).encode(); }

}  // namespace ravnest::ir
