#include "ravnest/graph/frontend/script/interpreter.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include "ravnest/graph/frontend/script/builtins.h"
#include "ravnest/graph/operators/operators.h"

namespace ravnest::graph::script {
namespace {

using torch::jit::Node;
using Items = std::vector<Item>;
namespace prim = c10::prim;

std::optional<std::string> own_location(const Node& node) {
  torch::jit::SourceRange range = node.sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  const auto place = range.file_line_col();
  if (!place) return std::nullopt;
  return text(std::get<0>(*place), ", line ", std::get<1>(*place));
}

// Nodes that set attributes do not know their line; what they set does.
std::string location(const Node& node) {
  if (const auto own = own_location(node)) return *own;
  for (const torch::jit::Value* input : node.inputs())
    if (const auto near = own_location(*input->node())) return *near;
  return "place unknown";
}

Status at_node(const Refusal& refusal, const Node& node) {
  const std::string place = text(node.kind().toQualString(), " (", location(node), ")");
  if (!refusal.decides) return refusal.status.with_context(place);
  return unsupported("the script decides by the value of a tensor at ", place,
                     ": a captured graph takes the same path for every batch. Use torch.where, a mask or torch.clamp "
                     "instead of `if`, `while`, `.item()`, `int()` or `bool()` on a tensor");
}

Refusal decision_by_value() { return {unsupported("it decides by the value of a tensor"), false, true}; }

// Autocast changes what the operators in it do, and a recording knows operators only.
void refuse_autocast(const c10::ClassType& type) {
  if (type.name()->name() == "autocast")
    throw Refusal{
        unsupported("it makes an object of type autocast in TorchScript; capture the nn.Module that the "
                    "script was made of")};
}

bool raises(const torch::jit::Block& block) {
  for (const Node* node : block.nodes())
    if (node->kind() == prim::RaiseException) return true;
  return false;
}

}  // namespace

Item Interpreter::module_item(const c10::IValue& module, const std::string& path) const {
  Item item{ItemKind::kObject};
  item.object = std::make_shared<Object>();
  item.object->origin = module.toObject();
  item.object->type = item.object->origin->type();
  item.object->path = path;
  return item;
}

Item Interpreter::run(const torch::jit::Graph& graph, Items inputs) {
  Environment environment;
  TORCH_CHECK(graph.inputs().size() == inputs.size(), "the script takes ", graph.inputs().size(), " inputs, not ",
              inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) environment[graph.inputs()[i]] = std::move(inputs[i]);
  Items results = run_block(*graph.block(), environment);
  return results.size() == 1 ? results.front() : sequence(ItemKind::kTuple, std::move(results));
}

Items Interpreter::run_block(const torch::jit::Block& block, Environment& environment) {
  // The innermost node names the place: what a called function already refused is passed on as it is.
  for (const Node* node : block.nodes()) {
    Items results;
    try {
      results = run_node(*node, environment);
    } catch (const Refusal& refusal) {
      if (refusal.placed) throw;
      throw Refusal{at_node(refusal, *node), true};
    } catch (const std::exception& error) {
      throw Refusal{at_node({invalid(message_of(error))}, *node), true};
    }
    if (results.size() != node->outputs().size())
      throw Refusal{at_node({unsupported("gave ", results.size(), " results for ", node->outputs().size())}, *node),
                    true};
    for (std::size_t i = 0; i < results.size(); ++i) environment[node->output(i)] = std::move(results[i]);
  }
  Items results;
  for (const torch::jit::Value* output : block.outputs()) results.push_back(environment.at(output));
  return results;
}

Items Interpreter::run_node(const Node& node, Environment& environment) {
  const auto kind = node.kind();
  if (kind == prim::Constant) {
    if (node.output()->type()->kind() == c10::TypeKind::FunctionType) return {plain({})};
    return {from_constant(torch::jit::toIValue(node.output()).value())};
  }
  if (kind == prim::If) return run_if(node, environment);
  if (kind == prim::Loop) return run_loop(node, environment);
  Items inputs;
  for (const torch::jit::Value* input : node.inputs()) inputs.push_back(environment.at(input));
  const auto object = [&]() -> Object& {
    if (inputs.at(0).kind != ItemKind::kObject) throw Refusal{unsupported("an object of a class made in C++")};
    return *inputs[0].object;
  };
  if (kind == prim::GetAttr) return {attribute(object(), node.s(c10::attr::name))};
  if (kind == prim::SetAttr) {
    set_attribute(object(), node.s(c10::attr::name), inputs.at(1));
    return {};
  }
  if (kind == prim::CreateObject) {
    Item made{ItemKind::kObject};
    made.object = std::make_shared<Object>();
    made.object->type = node.output()->type()->expect<c10::ClassType>();
    refuse_autocast(*made.object->type);
    return {made};
  }
  if (kind == prim::CallMethod) return {call_method(node.s(c10::attr::name), std::move(inputs))};
  if (kind == prim::CallFunction) {
    inputs.erase(inputs.begin());
    return {call_function(*node.input(0)->type()->expectRef<c10::FunctionType>().function(), std::move(inputs))};
  }
  if (kind == prim::Enter) return {call_method("__enter__", {inputs.at(0)})};
  if (kind == prim::Exit) return {call_method("__exit__", {inputs.at(0), plain({}), plain({}), plain({})})};
  if (kind == prim::RaiseException)
    throw Refusal{unsupported("the script raises: ", inputs.at(0).value.isString() ? inputs[0].value.toStringRef()
                                                                                   : std::string("an exception"))};
  return run_operator(node, inputs);
}

Items Interpreter::run_operator(const Node& node, Items& inputs) {
  if (auto result = call_on_numbers(node, inputs, recorder_)) return {std::move(*result)};
  if (auto results = call_builtin(node, inputs, recorder_)) return std::move(*results);
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) throw Refusal{unsupported("a graph has no such operation")};
  const bool makes_tensors = std::any_of(schema->returns().begin(), schema->returns().end(), [](const auto& returned) {
    return returned.type()->isSubtypeOf(*c10::TensorType::get()) ||
           returned.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
  const auto operation = c10::Dispatcher::singleton().findSchema(schema->operator_name());
  if (operation && (makes_tensors || schema->returns().empty())) {
    if (schema->name() != "aten::_convolution") return recorder_.call(*operation, std::move(inputs));
    inputs.resize(9);  // the rest says which library may be used: what convolution itself asks the process
    return recorder_.call(*find_operator("torch.ops.aten.convolution.default"), std::move(inputs));
  }
  return call_on_example(node, inputs, recorder_);
}

bool Interpreter::decide(const Item& condition) {
  if (condition.data) throw decision_by_value();
  return condition.value.isInt() ? condition.value.toInt() != 0 : condition.value.toBool();
}

Items Interpreter::run_if(const Node& node, Environment& environment) {
  const Item condition = environment.at(node.input(0));
  const bool taken = decide(condition);
  const torch::jit::Block& other = *node.blocks()[taken ? 1 : 0];
  if (!raises(other)) recorder_.fix(condition);  // an error at other sizes is the operators' own to raise
  return run_block(*node.blocks()[taken ? 0 : 1], environment);
}

Items Interpreter::run_loop(const Node& node, Environment& environment) {
  const Item count = environment.at(node.input(0));
  if (count.data) throw decision_by_value();
  recorder_.fix(count);
  Item condition = environment.at(node.input(1));
  Items carried;
  for (std::size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(environment.at(node.input(i)));
  const torch::jit::Block& body = *node.blocks()[0];
  for (std::int64_t i = 0; i < count.value.toInt(); ++i) {
    const bool again = decide(condition);
    recorder_.fix(condition);
    if (!again) break;
    environment[body.inputs()[0]] = number(i);
    for (std::size_t j = 0; j < carried.size(); ++j) environment[body.inputs()[j + 1]] = carried[j];
    carried = run_block(body, environment);
    condition = carried.front();
    carried.erase(carried.begin());
  }
  return carried;
}

Item Interpreter::call_function(torch::jit::Function& function, Items inputs) {
  torch::jit::GraphFunction* script = torch::jit::tryToGraphFunction(function);
  if (script == nullptr) throw Refusal{unsupported("a call of ", function.qualname().qualifiedName(), ", made in C++")};
  script->ensure_defined();
  return run(*script->graph(), std::move(inputs));
}

Item Interpreter::call_method(const std::string& name, Items inputs) {
  if (inputs.at(0).kind != ItemKind::kObject) throw Refusal{unsupported("an object of a class made in C++")};
  const std::shared_ptr<Object> object = inputs[0].object;
  torch::jit::Function* method = object->type->findMethod(name);
  if (method == nullptr) throw Refusal{unsupported(object->type->str(), " has no method ", name)};
  if (!object->type->is_module()) return call_function(*method, std::move(inputs));
  recorder_.enter(object->path, object->type->name()->qualifiedName());
  Item result = call_function(*method, std::move(inputs));
  recorder_.leave();
  return result;
}

Item Interpreter::attribute(Object& object, const std::string& name) {
  if (training_ && object.type->is_module() && name == "training") return number(*training_);
  const auto known = object.attributes.find(name);
  if (known != object.attributes.end()) return known->second;
  if (object.origin == nullptr) throw Refusal{unsupported("attribute ", name, " is read before it is set")};
  const std::string path = object.path.empty() ? name : object.path + "." + name;
  Item item = from_ivalue(object.origin->getAttr(name), [&](const c10::IValue& value) {
    if (value.isTensor()) return weight_of_(value.toTensor());
    return module_item(value, path);
  });
  object.attributes[name] = item;
  return item;
}

void Interpreter::set_attribute(Object& object, const std::string& name, const Item& value) {
  if (object.type->is_module()) {
    const Item before = attribute(object, name);
    const bool copyable = before.kind == ItemKind::kTensor && before.id >= 0 && value.kind == ItemKind::kTensor &&
                          before.value.toTensor().sizes() == value.value.toTensor().sizes() &&
                          before.value.toTensor().scalar_type() == value.value.toTensor().scalar_type();
    if (!copyable)
      throw Refusal{unsupported("it sets the module's attribute ", name,
                                ", which is no tensor of the same type and size; a graph keeps its state in tensors")};
    const Item weight = weight_of_(object.origin->getAttr(name).toTensor());
    std::erase_if(set_, [&](const auto& entry) { return entry.first.id == weight.id; });
    set_.emplace_back(weight, value);
  }
  object.attributes[name] = value;
}

void Interpreter::write_back() {
  recorder_.set_grad_enabled(false);
  for (const auto& [weight, value] : set_)
    recorder_.call(*find_operator("torch.ops.aten.copy_.default"), {weight, value, number(false)});
  recorder_.set_grad_enabled(true);
}

}  // namespace ravnest::graph::script
