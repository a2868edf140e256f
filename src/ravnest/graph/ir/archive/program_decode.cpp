#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "ravnest/base/json_field.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/archive/program_names.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

constexpr std::string_view kMetadataAssertion = "torch.ops.aten._assert_tensor_metadata.default";
constexpr int kMaxBlockDepth = 32;

class ProgramDecoder {
 public:
  Graph decode(const Field& program) {
    check_version(program["schema_version"]);
    const Field module = program["graph_module"];
    const Field graph = module["graph"];
    read_values(graph);
    read_inputs(graph["inputs"], module["signature"]["input_specs"]);
    graph["nodes"].for_each([&](const Field& node) { read_operator(node); });
    read_outputs(graph["outputs"], module["signature"]["output_specs"]);
    read_call(module["module_call_graph"]);
    if (const auto fields = module.optional("treespec_namedtuple_fields"))
      graph_.namedtuple_fields = fields->json().dump();
    program["range_constraints"].for_each_member([&](const std::string& symbol, const Field& range) {
      SymbolRange bounds;
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

  // A block also lists what it is given and what it returns; the graph around it has those already.
  void add_value(const Field& field, Value value) {
    if (value.name.empty()) field.fail("a value without a name");
    if (block_ >= 0 && names_->find(value.name)) return;
    if (!names_->bind(value.name, static_cast<ValueId>(graph_.values.size()))) field.fail("the name is used twice");
    while (!taken_.insert(value.name).second) value.name += text("_", ++renamed_);
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

  void read_inputs(const Field& inputs, const Field& specs) {
    if (!inputs.json().is_array() || !specs.json().is_array() || inputs.json().size() != specs.json().size())
      specs.fail("as many specs as graph inputs expected");
    specs.for_each([&](const Field& spec) { graph_.inputs.push_back(read_input(spec)); });
    std::size_t i = 0;
    inputs.for_each([&](const Field& field) {
      const Input& input = graph_.inputs[i++];
      const Argument declared = names_->argument(field);
      if (input.kind != InputKind::kFixed && declared != Argument(Ref{input.value}))
        field.fail("the signature names another value");
    });
  }

  Input read_input(const Field& spec) const {
    const auto [tag, body] = spec.tagged();
    Input input;
    if (tag == "user_input") {
      const Argument value = names_->argument(body["arg"]);
      const Ref* ref = std::get_if<Ref>(&value);
      if (ref == nullptr) body.refuse("a user input that is neither a tensor nor a symbol");
      input.value = ref->value;
    } else if (tag == "constant_input") {
      input = {InputKind::kFixed, -1, body["name"].string(), true, names_->argument(body["value"])};
    } else if (tag == "parameter") {
      input = {InputKind::kParameter, names_->tensor(body["arg"]).value, body["parameter_name"].string(), true, {}};
    } else if (tag == "buffer") {
      input = {InputKind::kBuffer,
               names_->tensor(body["arg"]).value,
               body["buffer_name"].string(),
               body["persistent"].boolean(),
               {}};
    } else if (tag == "tensor_constant") {
      input = {
          InputKind::kConstant, names_->tensor(body["arg"]).value, body["tensor_constant_name"].string(), true, {}};
    } else {
      body.refuse(text("graph input of kind \"", tag, "\" is not supported"));
    }
    return input;
  }

  void read_operator(const Field& field) {
    Operator op;
    op.target = field["target"].string();
    if (const auto name = field.optional("name")) op.name = name->string();
    if (op.target == kMetadataAssertion) return;
    if (op.target == kAutocastTarget) return read_autocast(field);
    if (op.target.starts_with("torch.ops.higher_order"))
      field.refuse(text("higher-order operator ", op.target, " is not supported"));
    field["inputs"].for_each([&](const Field& input) {
      const auto kind = input.optional("kind");
      op.inputs.push_back({input["name"].string(), names_->argument(input["arg"]), kind && kind->integer() == 2});
    });
    field["outputs"].for_each([&](const Field& output) { op.outputs.push_back(names_->argument(output)); });
    if (const auto metadata = field.optional("metadata")) {
      if (const auto stack = metadata->optional("nn_module_stack")) op.module_stack = stack->string();
    }
    op.place = static_cast<std::int32_t>(graph_.operators.size());
    op.autocast = block_;
    graph_.operators.push_back(std::move(op));
  }

  // wrap_with_autocast(device type, element type, enabled, cache, graph of the block, what it is given...)
  void read_autocast(const Field& field) {
    std::vector<Field> arguments;
    field["inputs"].for_each([&](const Field& input) { arguments.push_back(input["arg"]); });
    if (arguments.size() < kAutocastSettings) field.fail("an autocast block without its settings");
    const auto setting = [&](std::size_t i, std::string_view kind) {
      const auto [tag, value] = arguments[i].tagged();
      if (tag != kind) value.refuse("an autocast block with this kind of setting");
      return value;
    };
    Autocast block{setting(0, "as_string").string(), DType::kBFloat16, setting(2, "as_bool").boolean(), true, block_};
    const auto dtype = names_->argument(arguments[1]);
    if (!std::holds_alternative<DType>(dtype)) arguments[1].refuse("an autocast block without an element type");
    block.dtype = std::get<DType>(dtype);
    if (arguments[3].tagged().first != "as_none") block.cache = setting(3, "as_bool").boolean();
    if (++depth_ > kMaxBlockDepth) field.refuse(text("more than ", kMaxBlockDepth, " blocks inside each other"));
    const Field graph = setting(4, "as_graph")["graph"];

    Names inner(graph_.values);
    arguments.erase(arguments.begin(), arguments.begin() + kAutocastSettings);
    bind_operands(graph["inputs"], arguments, inner);
    bind_results(graph["outputs"], field["outputs"], inner);
    const std::int32_t around = std::exchange(block_, static_cast<std::int32_t>(graph_.autocasts.size()));
    Names* outer = std::exchange(names_, &inner);
    graph_.autocasts.push_back(std::move(block));
    read_values(graph);
    graph["nodes"].for_each([&](const Field& node) { read_operator(node); });
    names_ = outer;
    block_ = around;
    --depth_;
  }

  void bind_operands(const Field& inputs, const std::vector<Field>& operands, Names& inner) const {
    std::size_t next = 0;
    inputs.for_each([&](const Field& input) {
      if (next == operands.size()) inputs.fail("a block with more inputs than it is given");
      const Argument given = names_->argument(operands[next++]);
      const auto name = name_in(input);
      if (!name || !std::holds_alternative<Ref>(given)) input.refuse("a block with this kind of input");
      if (!inner.bind(*name, std::get<Ref>(given).value)) input.fail("the name is used twice");
    });
    if (next != operands.size()) inputs.fail("a block with fewer inputs than it is given");
  }

  // What a block makes and returns is one value under two names. What it returns and was given, or returns twice, is
  // there already: the name around the block then stands for that.
  void bind_results(const Field& returned, const Field& results, Names& inner) {
    std::vector<Field> outer;
    results.for_each([&](const Field& result) { outer.push_back(result); });
    std::size_t next = 0;
    returned.for_each([&](const Field& each) {
      if (next == outer.size()) returned.fail("a block that returns more than the graph around it takes");
      const Field& result = outer[next++];
      const auto name = name_in(each), result_name = name_in(result);
      if (!name || !result_name) each.refuse("a block that returns this kind of value");
      const Ref ref = std::get<Ref>(names_->argument(result));
      if (const auto there = inner.find(*name))
        names_->rebind(*result_name, *there);
      else
        inner.bind(*name, ref.value);
    });
    if (next != outer.size()) returned.fail("a block that returns less than the graph around it takes");
  }

  void read_outputs(const Field& outputs, const Field& specs) {
    if (!outputs.json().is_array() || !specs.json().is_array() || outputs.json().size() != specs.json().size())
      specs.fail("as many specs as graph outputs expected");
    specs.for_each([&](const Field& spec) {
      const auto [tag, body] = spec.tagged();
      if (tag == "user_output") {
        graph_.outputs.push_back(names_->argument(body["arg"]));
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
  // the last operator that reads the old value or makes the new one.
  void write_back(const Field& spec) {
    const std::string buffer_name = spec["buffer_name"].string();
    const auto buffer = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const Input& input) {
      return input.kind == InputKind::kBuffer && input.target == buffer_name;
    });
    if (buffer == graph_.inputs.end()) spec.fail(text("no buffer \"", buffer_name, "\""));
    const Ref source = names_->tensor(spec["arg"]);
    std::size_t position = 0;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      if (mentions(graph_.operators[i], buffer->value) || mentions(graph_.operators[i], source.value)) position = i + 1;
    }
    Operator copy;
    copy.name = "write_back_" + graph_.values[buffer->value].name;
    copy.target = "torch.ops.aten.copy_.default";
    copy.inputs = {{"self", Ref{buffer->value}, false}, {"src", source, false}};
    Value written = graph_.values[buffer->value];
    written.name = copy.name;
    add_value(spec, std::move(written));
    copy.outputs = {Ref{static_cast<ValueId>(graph_.values.size() - 1)}};
    graph_.operators.insert(graph_.operators.begin() + static_cast<std::ptrdiff_t>(position), std::move(copy));
    for (std::size_t i = position; i < graph_.operators.size(); ++i)
      graph_.operators[i].place = static_cast<std::int32_t>(i);
  }

  static bool mentions(const Operator& op, ValueId value) {
    bool found = false;
    const auto visit = [&](Ref ref) { found = found || ref.value == value; };
    for (const NamedArgument& input : op.inputs) for_each_ref(input.value, visit);
    for (const Argument& output : op.outputs) for_each_ref(output, visit);
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
  Names own_names_{graph_.values};
  Names* names_ = &own_names_;  // of the graph that is being read: the model's own, or a block's
  std::int32_t block_ = -1;     // the block that is being read
  int depth_ = 0;
  std::unordered_set<std::string> taken_;  // names of values
  int renamed_ = 0;
};

}  // namespace

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
