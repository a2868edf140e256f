#include "ravnest/graph/frontend/script/recorder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "ravnest/graph/frontend/script/arguments.h"
#include "ravnest/graph/ir/verify.h"
#include "ravnest/graph/operators/boxing.h"
#include "ravnest/graph/operators/operators.h"
#include "ravnest/graph/operators/size_operators.h"

namespace ravnest::graph::script {
namespace {

std::string identifier(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

// "torch.ops.aten.add.Tensor"
std::string target_of(const c10::OperatorName& name) {
  const std::size_t colons = name.name.find("::");
  return text("torch.ops.", name.name.substr(0, colons), ".", name.name.substr(colons + 2), ".",
              name.overload_name.empty() ? "default" : name.overload_name);
}

ir::ValueKind kind_of(const c10::IValue& number) {
  if (number.isBool()) return ir::ValueKind::kSymBool;
  return number.isDouble() ? ir::ValueKind::kSymFloat : ir::ValueKind::kSymInt;
}

bool is_written(const c10::Argument& declared) {
  return declared.alias_info() != nullptr && declared.alias_info()->isWrite();
}

// A number that arithmetic on tensors took for one: it must stay weak in type promotion.
bool is_wrapped_number(const Item& item) {
  return item.kind == ItemKind::kTensor && item.id < 0 &&
         item.value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

c10::OperatorHandle operator_named(const std::string& target) {
  Result<c10::OperatorHandle> handle = find_operator(target);
  if (!handle.ok()) throw Refusal{handle.status()};
  return *handle;
}

}  // namespace

Recorder::Recorder(const Weights& weights, std::vector<at::Tensor> tensors) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Weight& weight = weights[i];
    const char* prefix = weight.kind == ir::InputKind::kParameter ? "p_" : "b_";
    const ir::ValueId id = add_value(prefix + identifier(weight.name), ir::ValueKind::kTensor);
    graph_.inputs.push_back({weight.kind, id, weight.name, weight.persistent, {}});
    weights_.push_back(tensor(std::move(tensors[i]), id));
  }
}

std::string Recorder::unique(std::string name) {
  std::string candidate = name;
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = text(name, "_", i);
  return candidate;
}

ir::ValueId Recorder::add_value(const std::string& name, ir::ValueKind kind) {
  ir::Value value;
  value.name = unique(name);
  value.kind = kind;
  graph_.values.push_back(std::move(value));
  return static_cast<ir::ValueId>(graph_.values.size() - 1);
}

Item Recorder::input(const std::string& name, const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    const ir::ValueId id = add_value(identifier(name), ir::ValueKind::kTensor);
    user_inputs_.push_back({ir::InputKind::kUser, id, "", true, {}});
    return tensor(value.toTensor(), id);
  }
  const Item item = from_constant(value);
  ir::Input fixed{ir::InputKind::kFixed, -1, unique(identifier(name)), true, {}};
  if (value.isBool())
    fixed.fixed = value.toBool();
  else if (value.isInt())
    fixed.fixed = value.toInt();
  else if (value.isDouble())
    fixed.fixed = value.toDouble();
  else if (value.isString())
    fixed.fixed = value.toStringRef();
  else if (!item.is_none())
    throw Refusal{unsupported("argument ", name, ": a model cannot take ", value.tagKind())};
  user_inputs_.push_back(std::move(fixed));
  return item;
}

// A constant that the graph writes to must not keep what it wrote from one run to the next: it gets a copy per run.
ir::ValueId Recorder::lift(const Item& constant, bool written) {
  const at::Tensor& value = constant.value.toTensor();
  const void* key = value.unsafeGetTensorImpl();
  auto found = lifted_.find(key);
  if (found == lifted_.end()) {
    const std::string name = text("lifted_tensor_", constants_.size());
    const ir::ValueId id = add_value("c_" + name, ir::ValueKind::kTensor);
    constants_.emplace_back(name, value.detach().clone());
    constant_inputs_.push_back({ir::InputKind::kConstant, id, name, true, {}});
    found = lifted_.emplace(key, id).first;
  }
  if (written && written_.insert(key).second) {
    ir::Operator copy;
    copy.target = "torch.ops.aten.clone.default";
    copy.inputs = {{"self", ir::Ref{found->second}, false}};
    found->second = add_value("clone", ir::ValueKind::kTensor);
    copy.name = graph_.values[found->second].name;
    copy.outputs = {ir::Ref{found->second}};
    add_operator(std::move(copy));
  }
  return found->second;
}

// Where nobody says which module is at work: the owner of the first weight that the operator reads.
std::string Recorder::owner_stack(const ir::Operator& op) const {
  for (const ir::NamedArgument& input : op.inputs) {
    std::string path;
    ir::for_each_ref(input.value, [&](ir::Ref ref) {
      if (!path.empty() || ref.value >= static_cast<ir::ValueId>(weights_.size())) return;
      const std::string& name = graph_.inputs[ref.value].target;
      path = name.substr(0, name.find('.') == std::string::npos ? 0 : name.rfind('.'));
    });
    if (!path.empty()) return text("L__self___", identifier(path), ",", path, ",module");
  }
  return {};
}

void Recorder::add_operator(ir::Operator op) {
  std::string stack;
  for (const auto& [path, type] : modules_) {
    if (!stack.empty()) stack += ";";
    stack += text("L__self__", path.empty() ? "" : "_" + identifier(path), ",", path, ",", type);
  }
  if (stack.empty()) stack = owner_stack(op);
  op.module_stack = std::move(stack);
  op.place = static_cast<std::int32_t>(graph_.operators.size());
  graph_.operators.push_back(std::move(op));
}

void Recorder::fix(const Item& number) {
  if (number.data) throw Refusal{unsupported("it depends on a number that was read out of a tensor")};
  if (number.id >= 0) guards_.push_back({number.id, number.value});
}

Item Recorder::compute(const std::string& target, const std::vector<Item>& arguments) {
  const SizeOperator* operation = find_size_operator(target);
  TORCH_CHECK(operation != nullptr && operation->arity == arguments.size(), target, " is no operator on sizes");
  ir::Operator op;
  op.target = target;
  std::vector<c10::IValue> values;
  bool known = true;
  bool data = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Item& item = arguments[i];
    known = known && item.id < 0;
    data = data || item.data;
    values.push_back(item.value);
    ir::Argument argument = ir::Ref{item.id};
    if (item.id < 0 && item.value.isBool())
      argument = item.value.toBool();
    else if (item.id < 0 && item.value.isInt())
      argument = item.value.toInt();
    else if (item.id < 0 && item.value.isDouble())
      argument = item.value.toDouble();
    op.inputs.push_back({i == 0 ? "a" : i == 1 ? "b" : "c", std::move(argument), false});
  }
  Item result = number(operation->call(values));
  result.data = data;
  if (known || data) return result;
  result.id = add_value(identifier(target.substr(target.rfind('.') + 1)), kind_of(result.value));
  op.name = graph_.values[result.id].name;
  op.outputs = {ir::Ref{result.id}};
  add_operator(std::move(op));
  return result;
}

Item Recorder::size(const Item& of, std::int64_t dimension) {
  const at::Tensor& value = of.value.toTensor();
  const std::int64_t wrapped = c10::maybe_wrap_dim(dimension, value.dim());
  const bool owned = of.id >= 0 && of.id < static_cast<ir::ValueId>(weights_.size());
  if (of.id < 0 || owned) return number(value.size(wrapped));
  ir::Operator op;
  op.target = "torch.ops.aten.sym_size.int";
  op.inputs = {{"self", ir::Ref{of.id}, false}, {"dim", wrapped, false}};
  const ir::ValueId id = add_value("sym_size_int", ir::ValueKind::kSymInt);
  op.name = graph_.values[id].name;
  op.outputs = {ir::Ref{id}};
  add_operator(std::move(op));
  return number(value.size(wrapped), id);
}

Item Recorder::as_tensor(const Item& number) {
  const at::ScalarType dtype = number.value.isDouble() ? at::kDouble : number.value.isBool() ? at::kBool : at::kLong;
  return call(operator_named("torch.ops.aten.scalar_tensor.default"),
              {number, script::number(static_cast<std::int64_t>(dtype)), plain({}), plain({}), plain({})})
      .front();
}

// What a block without gradients reads: nothing made from it carries a gradient then, inside the block or behind it.
Item Recorder::without_grad(const Item& item) {
  const bool was = std::exchange(grad_enabled_, true);
  const Item detached = call(operator_named("torch.ops.aten.detach.default"), {item}).front();
  grad_enabled_ = was;
  return detached;
}

std::vector<Item> Recorder::call(const c10::OperatorHandle& operation, std::vector<Item> arguments) {
  const c10::FunctionSchema& schema = operation.schema();
  TORCH_CHECK(arguments.size() == schema.arguments().size(), schema.name(), " takes ", schema.arguments().size(),
              " arguments, not ", arguments.size());
  std::vector<std::pair<Item, Item>> detached;  // (what the block reads, the outer tensor)
  ir::Operator op;
  op.target = target_of(operation.operator_name());
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& declared = schema.arguments()[i];
    Item& item = arguments[i];
    if (item.items != nullptr) item.items = std::make_shared<std::vector<Item>>(*item.items);  // ours to change
    const bool wants_tensor = plain_type(declared)->kind() == c10::TypeKind::TensorType;
    if (item.kind == ItemKind::kNumber && wants_tensor && item.id >= 0) item = as_tensor(item);
    stack.emplace_back();
    if (is_wrapped_number(item)) {
      stack.back() = item.value;
      op.inputs.push_back({declared.name(), constant_argument(item.value.toTensor().item()), declared.kwarg_only()});
      continue;
    }
    for_each_leaf(item, [&](Item& leaf) {
      if (leaf.kind != ItemKind::kTensor) return;
      if (leaf.id < 0) leaf.id = lift(leaf, is_written(declared));
      if (grad_enabled_ || !leaf.value.toTensor().requires_grad()) return;
      const Item inner = without_grad(leaf);
      detached.emplace_back(inner, leaf);
      leaf = inner;
    });
    // By position, nothing may be left out before what follows.
    const bool by_default = declared.kwarg_only() && item.is_none() && declared.default_value().has_value() &&
                            declared.default_value()->isNone();
    if (!by_default) op.inputs.push_back({declared.name(), to_argument(item, declared, *this), declared.kwarg_only()});
    stack.back() = to_ivalue(item, declared.type());
  }
  {
    const c10::AutoGradMode mode(grad_enabled_);
    operation.callBoxed(stack);
  }
  std::string base = schema.name().substr(schema.name().find("::") + 2);
  std::vector<Item> results;
  for (const c10::IValue& value : stack) results.push_back(result(value, op, base));
  if (!op.outputs.empty() && std::holds_alternative<ir::Ref>(op.outputs.front()) && op.outputs.size() == 1)
    op.name = graph_.values[std::get<ir::Ref>(op.outputs.front()).value].name;
  else
    op.name = unique(base);
  add_operator(std::move(op));
  for (Item& item : results) {
    if (item.kind != ItemKind::kTensor) continue;
    for (const auto& [inner, outer] : detached)
      if (item.value.toTensor().is_same(inner.value.toTensor())) item = outer;  // written in place
  }
  return results;
}

Item Recorder::result(const c10::IValue& value, ir::Operator& op, const std::string& name) {
  const auto make = [&](const at::Tensor& made) { return tensor(made, add_value(name, ir::ValueKind::kTensor)); };
  if (value.isTensor() && value.toTensor().defined()) {
    Item item = make(value.toTensor());
    op.outputs.emplace_back(ir::Ref{item.id});
    return item;
  }
  if (value.isTensorList()) {
    std::vector<Item> items;
    std::vector<ir::Ref> refs;
    for (const at::Tensor& each : value.toTensorVector()) {
      items.push_back(make(each));
      refs.push_back({items.back().id});
    }
    op.outputs.emplace_back(std::move(refs));
    return sequence(ItemKind::kList, std::move(items));
  }
  op.outputs.emplace_back(ir::None{});
  Item item = from_constant(value);
  item.data = true;  // a number that a tensor operator returns is made of its data
  return item;
}

ir::TreeSpec Recorder::output_tree(const Item& item, std::vector<ir::Argument>& flat) {
  const auto children = [&](std::size_t first, std::size_t step) {
    std::vector<ir::TreeSpec> specs;
    for (std::size_t i = first; i < item.items->size(); i += step) specs.push_back(output_tree((*item.items)[i], flat));
    return specs;
  };
  switch (item.kind) {
    case ItemKind::kTuple: return ir::tuple_of(children(0, 1));
    case ItemKind::kList: return {"builtins.list", "null", children(0, 1)};
    case ItemKind::kDict: return {"builtins.dict", dict_context(item), children(1, 2)};
    case ItemKind::kTensor: flat.emplace_back(ir::Ref{item.id >= 0 ? item.id : lift(item, false)}); return {};
    case ItemKind::kNumber:
      if (item.data) throw Refusal{unsupported("the model returns a number that it reads out of a tensor")};
      flat.push_back(item.id >= 0 ? ir::Argument(ir::Ref{item.id}) : constant_argument(item.value));
      return {};
    default: flat.push_back(constant_argument(to_ivalue(item, nullptr))); return {};
  }
}

Recording Recorder::finish(const Item& outputs, std::string in_spec, std::vector<std::string> argument_names) {
  graph_.out_spec = ir::to_text(output_tree(outputs, graph_.outputs));
  graph_.in_spec = std::move(in_spec);
  graph_.argument_names = std::move(argument_names);
  graph_.inputs.insert(graph_.inputs.end(), constant_inputs_.begin(), constant_inputs_.end());
  graph_.inputs.insert(graph_.inputs.end(), user_inputs_.begin(), user_inputs_.end());
  return {std::move(graph_), std::move(guards_), std::move(constants_)};
}

}  // namespace ravnest::graph::script
