#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "ravnest/base/json_field.h"
#include "ravnest/graph/ir/program.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

constexpr std::string_view kMetadataAssertion = "torch.ops.aten._assert_tensor_metadata.default";

Size size_from_json(const Field& field) {
  const auto [tag, value] = field.tagged();
  if (tag == "as_int") return {value.integer(), ""};
  if (tag != "as_expr") value.refuse("unknown kind of size");
  Size size{0, value["expr_str"].string()};
  if (size.expression.empty()) value.fail("an empty size expression");
  if (const auto hint = value.optional("hint")) size.hint = hint->tagged().second.integer();
  return size;
}

Device device_from_json(const Field& field) {
  Device device{field["type"].string(), std::nullopt};
  if (const auto index = field.optional("index")) {
    if (index->integer() < -1 || index->integer() > INT8_MAX) index->fail("no such device");
    device.index = static_cast<int>(index->integer());
  }
  return device;
}

DType dtype_from_json(const Field& field) {
  const auto dtype = dtype_from_schema(field.integer());
  if (!dtype) field.refuse(text("unknown element type number ", field.integer()));
  return *dtype;
}

StridedLayout layout_from_json(const Field& field) {
  const auto layout = layout_from_schema(field.integer());
  if (!layout) field.refuse(text("layout number ", field.integer(), "; only strided tensors are supported"));
  return *layout;
}

class ProgramDecoder {
 public:
  Graph decode(const Field& program) {
    check_version(program["schema_version"]);
    const Field module = program["graph_module"];
    const Field graph = module["graph"];
    read_values(graph);
    read_inputs(graph["inputs"], module["signature"]["input_specs"]);
    graph["nodes"].for_each([&](const Field& node) { read_node(node); });
    read_outputs(graph["outputs"], module["signature"]["output_specs"]);
    read_call(module["module_call_graph"]);
    if (const auto fields = module.optional("treespec_namedtuple_fields"))
      graph_.namedtuple_fields = fields->json().dump();
    program["range_constraints"].for_each_member([&](const std::string& symbol, const Field& range) {
      Range bounds;
      if (const auto min = range.optional("min_val")) bounds.min = min->integer();
      if (const auto max = range.optional("max_val")) bounds.max = max->integer();
      graph_.ranges.emplace(symbol, bounds);
    });
    return std::move(graph_);
  }

 private:
  static void check_version(const Field& version) {
    const std::int64_t major = version["major"].integer();
    if (major != kSchemaMajor)
      version.refuse(text("schema version ", major, ".", version["minor"].integer(), "; this version of ravnest reads ",
                          kSchemaMajor, ".x, as torch 2.11 to 2.13 write it"));
  }

  void add_value(const Field& field, Value value) {
    if (value.name.empty()) field.fail("a value without a name");
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (!ids_.emplace(value.name, id).second) field.fail("the name is used twice");
    graph_.values.push_back(std::move(value));
  }

  static double symbol_hint(const Field& field, ValueKind kind) {
    if (field.json().is_boolean()) return field.boolean() ? 1 : 0;
    if (kind != ValueKind::kSymInt) return field.number();
    constexpr std::int64_t kExact = std::int64_t{1} << 53;  // hints are kept as double
    const std::int64_t hint = field.integer();
    if (hint < -kExact || hint > kExact) field.fail("the size is out of range");
    return static_cast<double>(hint);
  }

  void read_symbols(const Field& graph, std::string_view key, ValueKind kind) {
    graph[key].for_each_member([&](const std::string& name, const Field& field) {
      Value value{name, kind, {}, "", {}};
      const auto [tag, body] = field.tagged();
      if (tag == "as_expr") {
        value.expression = body["expr_str"].string();
        if (value.expression.empty()) body.fail("an empty expression");
        if (const auto hint = body.optional("hint")) value.hint = symbol_hint(hint->tagged().second, kind);
      } else {
        value.hint = symbol_hint(body, kind);
      }
      add_value(field, std::move(value));
    });
  }

  void read_values(const Field& graph) {
    graph["tensor_values"].for_each_member([&](const std::string& name, const Field& field) {
      add_value(field, {name, ValueKind::kTensor, tensor_meta_from_json(field), "", {}});
    });
    read_symbols(graph, "sym_int_values", ValueKind::kSymInt);
    read_symbols(graph, "sym_float_values", ValueKind::kSymFloat);
    read_symbols(graph, "sym_bool_values", ValueKind::kSymBool);
    if (const auto objects = graph.optional("custom_obj_values")) {
      objects->for_each_member([](const std::string& name, const Field& object) {
        object.refuse(text("custom object \"", name, "\"; custom classes are not supported"));
      });
    }
  }

  Ref named(const Field& name, ValueKind kind) const {
    const auto found = ids_.find(name.string());
    if (found == ids_.end()) name.fail(text("value \"", name.string(), "\" is not declared"));
    if (graph_.values[found->second].kind != kind) name.fail(text("value \"", name.string(), "\" is of another kind"));
    return Ref{found->second};
  }

  Ref tensor(const Field& field) const { return named(field["name"], ValueKind::kTensor); }

  IntOrRef int_or_ref(const Field& field) const {
    const auto [tag, value] = field.tagged();
    if (tag == "as_int") return value.integer();
    if (tag == "as_name") return named(value, ValueKind::kSymInt);
    field.refuse(text("unknown member ", tag));
  }

  // A symbol by name, or the plain number in its place.
  Argument symbol(const Field& field, ValueKind kind) const {
    const auto [tag, value] = field.tagged();
    if (tag == "as_name") return named(value, kind);
    if (tag == "as_int") return value.integer();
    if (tag == "as_bool") return value.boolean();
    if (tag == "as_float") return value.number();
    field.refuse(text("unknown member ", tag));
  }

  std::optional<Ref> optional_tensor(const Field& field) const {
    const auto [tag, value] = field.tagged();
    if (tag == "as_none") return std::nullopt;
    if (tag == "as_tensor") return tensor(value);
    field.refuse(text("unknown member ", tag));
  }

  template <class T, class Function>
  static std::vector<T> list(const Field& field, Function&& read) {
    std::vector<T> result;
    field.for_each([&](const Field& item) { result.push_back(read(item)); });
    return result;
  }

  Argument list_argument(const std::string& tag, const Field& value) const {
    if (tag == "as_tensors") return list<Ref>(value, [&](const Field& f) { return tensor(f); });
    if (tag == "as_ints") return list<std::int64_t>(value, [](const Field& f) { return f.integer(); });
    if (tag == "as_floats") return list<double>(value, [](const Field& f) { return f.number(); });
    if (tag == "as_bools") return list<bool>(value, [](const Field& f) { return f.boolean(); });
    if (tag == "as_strings") return list<std::string>(value, [](const Field& f) { return f.string(); });
    if (tag == "as_sym_ints") return list<IntOrRef>(value, [&](const Field& f) { return int_or_ref(f); });
    if (tag == "as_optional_tensors")
      return list<std::optional<Ref>>(value, [&](const Field& f) { return optional_tensor(f); });
    value.refuse(text("argument kind \"", tag, "\" is not supported"));
  }

  Argument argument(const Field& field) const {
    const auto [tag, value] = field.tagged();
    if (tag == "as_none") return None{};
    if (tag == "as_tensor") return tensor(value);
    if (tag == "as_int") return value.integer();
    if (tag == "as_float") return value.number();
    if (tag == "as_bool") return value.boolean();
    if (tag == "as_string") return value.string();
    if (tag == "as_sym_int") return symbol(value, ValueKind::kSymInt);
    if (tag == "as_sym_float") return symbol(value, ValueKind::kSymFloat);
    if (tag == "as_sym_bool") return symbol(value, ValueKind::kSymBool);
    if (tag == "as_scalar_type") return dtype_from_json(value);
    if (tag == "as_layout") return layout_from_json(value);
    if (tag == "as_device") return device_from_json(value);
    if (tag == "as_complex") return std::complex<double>(value["real"].number(), value["imag"].number());
    if (tag == "as_memory_format") {
      const auto format = memory_format_from_schema(value.integer());
      if (!format) value.refuse("unknown memory format");
      return *format;
    }
    if (tag == "as_optional_tensor") {
      const auto ref = optional_tensor(value);
      return ref ? Argument(*ref) : Argument(None{});
    }
    return list_argument(tag, value);
  }

  void read_inputs(const Field& inputs, const Field& specs) {
    if (!inputs.json().is_array() || !specs.json().is_array() || inputs.json().size() != specs.json().size())
      specs.fail("as many specs as graph inputs expected");
    specs.for_each([&](const Field& spec) { graph_.inputs.push_back(read_input(spec)); });
    std::size_t i = 0;
    inputs.for_each([&](const Field& field) {
      const Input& input = graph_.inputs[i++];
      const Argument declared = argument(field);
      if (input.kind != InputKind::kFixed && declared != Argument(Ref{input.value}))
        field.fail("the signature names another value");
    });
  }

  Input read_input(const Field& spec) const {
    const auto [tag, body] = spec.tagged();
    Input input;
    if (tag == "user_input") {
      const Argument value = argument(body["arg"]);
      const Ref* ref = std::get_if<Ref>(&value);
      if (ref == nullptr) body.refuse("a user input that is neither a tensor nor a symbol");
      input.value = ref->value;
    } else if (tag == "constant_input") {
      input = {InputKind::kFixed, -1, body["name"].string(), true, argument(body["value"])};
    } else if (tag == "parameter") {
      input = {InputKind::kParameter, tensor(body["arg"]).value, body["parameter_name"].string(), true, {}};
    } else if (tag == "buffer") {
      input = {InputKind::kBuffer,
               tensor(body["arg"]).value,
               body["buffer_name"].string(),
               body["persistent"].boolean(),
               {}};
    } else if (tag == "tensor_constant") {
      input = {InputKind::kConstant, tensor(body["arg"]).value, body["tensor_constant_name"].string(), true, {}};
    } else {
      body.refuse(text("graph input of kind \"", tag, "\" is not supported"));
    }
    return input;
  }

  void read_node(const Field& field) {
    Node node;
    node.target = field["target"].string();
    if (const auto name = field.optional("name")) node.name = name->string();
    if (node.target == kMetadataAssertion) return;
    if (node.target.starts_with("torch.ops.higher_order"))
      field.refuse(text("higher-order operator ", node.target, " is not supported"));
    field["inputs"].for_each([&](const Field& input) {
      const auto kind = input.optional("kind");
      node.inputs.push_back({input["name"].string(), argument(input["arg"]), kind && kind->integer() == 2});
    });
    field["outputs"].for_each([&](const Field& output) { node.outputs.push_back(argument(output)); });
    if (const auto metadata = field.optional("metadata")) {
      if (const auto stack = metadata->optional("nn_module_stack")) node.module_stack = stack->string();
    }
    node.place = static_cast<std::int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
  }

  void read_outputs(const Field& outputs, const Field& specs) {
    if (!outputs.json().is_array() || !specs.json().is_array() || outputs.json().size() != specs.json().size())
      specs.fail("as many specs as graph outputs expected");
    specs.for_each([&](const Field& spec) {
      const auto [tag, body] = spec.tagged();
      if (tag == "user_output") {
        graph_.outputs.push_back(argument(body["arg"]));
        if (!can_be_returned(graph_.outputs.back())) body.refuse("a model that returns this kind of value");
      } else if (tag == "buffer_mutation") {
        write_back(body);
      } else {
        body.refuse(text("graph output of kind \"", tag, "\" is not supported"));
      }
    });
  }

  static bool can_be_returned(const Argument& value) {
    return std::holds_alternative<Ref>(value) || std::holds_alternative<None>(value) ||
           std::holds_alternative<bool>(value) || std::holds_alternative<std::int64_t>(value) ||
           std::holds_alternative<double>(value) || std::holds_alternative<std::string>(value);
  }

  // A functionalised program returns a buffer's new value. Run it as the in-place write that it stands for, behind
  // the last node that reads the old value or makes the new one.
  void write_back(const Field& spec) {
    const std::string buffer_name = spec["buffer_name"].string();
    const auto buffer = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const Input& input) {
      return input.kind == InputKind::kBuffer && input.target == buffer_name;
    });
    if (buffer == graph_.inputs.end()) spec.fail(text("no buffer \"", buffer_name, "\""));
    const Ref source = tensor(spec["arg"]);
    std::size_t position = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (mentions(graph_.nodes[i], buffer->value) || mentions(graph_.nodes[i], source.value)) position = i + 1;
    }
    Node copy;
    copy.name = "write_back_" + graph_.values[buffer->value].name;
    copy.target = "torch.ops.aten.copy_.default";
    copy.inputs = {{"self", Ref{buffer->value}, false}, {"src", source, false}};
    Value written = graph_.values[buffer->value];
    written.name = copy.name;
    add_value(spec, std::move(written));
    copy.outputs = {Ref{static_cast<ValueId>(graph_.values.size() - 1)}};
    graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(position), std::move(copy));
    for (std::size_t i = position; i < graph_.nodes.size(); ++i) graph_.nodes[i].place = static_cast<std::int32_t>(i);
  }

  static bool mentions(const Node& node, ValueId value) {
    bool found = false;
    const auto visit = [&](Ref ref) { found = found || ref.value == value; };
    for (const NamedArgument& input : node.inputs) for_each_ref(input.value, visit);
    for (const Argument& output : node.outputs) for_each_ref(output, visit);
    return found;
  }

  void read_call(const Field& modules) {
    bool found = false;
    modules.for_each([&](const Field& module) {
      if (found || !module["fqn"].string().empty()) return;
      const auto signature = module.optional("signature");
      if (!signature) return;
      graph_.in_spec = (*signature)["in_spec"].string();
      graph_.out_spec = (*signature)["out_spec"].string();
      if (const auto names = signature->optional("forward_arg_names"))
        names->for_each([&](const Field& name) { graph_.argument_names.push_back(name.string()); });
      found = true;
    });
    if (!found) modules.fail("no call signature for the model itself");
  }

  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

TensorMeta tensor_meta_from_json(const Field& field) {
  TensorMeta meta;
  meta.dtype = dtype_from_json(field["dtype"]);
  (void)layout_from_json(field["layout"]);
  field["sizes"].for_each([&](const Field& size) { meta.sizes.push_back(size_from_json(size)); });
  field["strides"].for_each([&](const Field& stride) { meta.strides.push_back(size_from_json(stride)); });
  if (meta.sizes.size() != meta.strides.size()) field.fail("as many strides as sizes expected");
  meta.storage_offset = size_from_json(field["storage_offset"]);
  meta.requires_grad = field["requires_grad"].boolean();
  meta.device = device_from_json(field["device"]);
  return meta;
}

Result<Graph> decode_program(const nlohmann::json& program, std::string_view what) {
  try {
    Graph graph = ProgramDecoder().decode(Field(program, std::string(what)));
    if (Status status = check(graph); !status.ok()) return status.with_context(what);
    return graph;
  } catch (const DecodeError& error) {
    return error.status;
  }
}

}  // namespace ravnest::ir
