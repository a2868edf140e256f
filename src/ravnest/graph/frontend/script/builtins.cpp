#include "ravnest/graph/frontend/script/builtins.h"

#include <functional>
#include <unordered_map>

#include "ravnest/graph/operators/operators.h"

namespace ravnest::graph::script {
namespace {

using Items = std::vector<Item>;

struct BuiltinCall {
  const torch::jit::Node& node;
  Items& inputs;
  Recorder& recorder;

  Item& operator[](std::size_t i) const { return inputs.at(i); }
  Items& list(std::size_t i) const {
    if (inputs.at(i).items == nullptr) throw Refusal{unsupported("a list is expected")};
    return *inputs.at(i).items;
  }
  // A number that decides something here and now.
  std::int64_t index(std::size_t i) const {
    recorder.fix(inputs.at(i));
    return inputs.at(i).value.toInt();
  }
  bool is(std::size_t i, ItemKind kind) const { return i < inputs.size() && inputs[i].kind == kind; }
};

using Builtin = std::function<std::optional<Items>(const BuiltinCall&)>;

std::optional<Items> one(Item item) { return Items{std::move(item)}; }

std::optional<Items> same(const BuiltinCall& call) { return one(call[0]); }

std::size_t position(std::int64_t index, const Items& items) {
  const auto size = static_cast<std::int64_t>(items.size());
  TORCH_CHECK_INDEX(index >= -size && index < size, "list index ", index, " out of range");
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

// Where a dict has this key; the end where it has not.
std::size_t find_key(const Items& dict, const Item& key) {
  for (std::size_t i = 0; i < dict.size(); i += 2)
    if (dict[i].value == key.value) return i;
  return dict.size();
}

std::optional<Items> get_item(const BuiltinCall& call) {
  if (call.is(0, ItemKind::kDict)) {
    const Items& dict = call.list(0);
    const std::size_t at = find_key(dict, call[1]);
    TORCH_CHECK_INDEX(at < dict.size(), "the dict has no such key");
    return one(dict[at + 1]);
  }
  if (call[0].items == nullptr) return std::nullopt;
  return one(call.list(0)[position(call.index(1), call.list(0))]);
}

std::optional<Items> set_item(const BuiltinCall& call) {
  Items& items = call.list(0);
  if (call.is(0, ItemKind::kDict)) {
    const std::size_t at = find_key(items, call[1]);
    if (at < items.size())
      items[at + 1] = call[2];
    else
      items.insert(items.end(), {call[1], call[2]});
  } else {
    items[position(call.index(1), items)] = call[2];
  }
  return Items{};
}

std::optional<Items> contains(const BuiltinCall& call) {
  if (!call.is(0, ItemKind::kDict)) return std::nullopt;
  return one(number(find_key(call.list(0), call[1]) < call.list(0).size()));
}

std::optional<Items> every_second(const BuiltinCall& call, std::size_t first) {
  Items items;
  for (std::size_t i = first; i < call.list(0).size(); i += 2) items.push_back(call.list(0)[i]);
  return one(sequence(ItemKind::kList, std::move(items)));
}

std::optional<Items> entries(const BuiltinCall& call) {
  Items items;
  for (std::size_t i = 0; i < call.list(0).size(); i += 2)
    items.push_back(sequence(ItemKind::kTuple, {call.list(0)[i], call.list(0)[i + 1]}));
  return one(sequence(ItemKind::kList, std::move(items)));
}

std::optional<Items> slice(const BuiltinCall& call) {
  if (call[0].items == nullptr) return std::nullopt;
  const Items& items = call.list(0);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    if (i >= call.inputs.size() || call[i].is_none()) return otherwise;
    const std::int64_t given = call.index(i);
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const std::int64_t step = call.inputs.size() > 3 ? call.index(3) : 1;
  if (step < 1) return std::nullopt;
  Items taken;
  for (std::int64_t i = bound(1, 0); i < bound(2, size); i += step) taken.push_back(items[static_cast<std::size_t>(i)]);
  return one(sequence(call[0].kind, std::move(taken)));
}

std::optional<Items> sizes(const BuiltinCall& call) {
  if (!call.is(0, ItemKind::kTensor)) return std::nullopt;
  if (call.inputs.size() > 1) return one(call.recorder.size(call[0], call.index(1)));
  Items items;
  for (std::int64_t i = 0; i < call[0].value.toTensor().dim(); ++i) items.push_back(call.recorder.size(call[0], i));
  return one(sequence(ItemKind::kList, std::move(items)));
}

std::optional<Items> element_count(const BuiltinCall& call) {
  Item count = number(std::int64_t{1});
  for (std::int64_t i = 0; i < call[0].value.toTensor().dim(); ++i)
    count = call.recorder.compute("_operator.mul", {count, call.recorder.size(call[0], i)});
  return one(std::move(count));
}

std::optional<Items> length(const BuiltinCall& call) {
  if (call.is(0, ItemKind::kTensor)) return one(call.recorder.size(call[0], 0));
  if (call[0].items == nullptr) return std::nullopt;
  const std::size_t count = call.list(0).size();
  return one(number(static_cast<std::int64_t>(call.is(0, ItemKind::kDict) ? count / 2 : count)));
}

// Whether two lists of numbers are the same, where some are the graph's.
std::optional<Items> compare_lists(const BuiltinCall& call, bool equal) {
  if (call[0].items == nullptr || call[1].items == nullptr) return std::nullopt;
  for (const Items* items : {&call.list(0), &call.list(1)})
    for (const Item& item : *items)
      if (item.kind != ItemKind::kNumber) return std::nullopt;
  const bool same_length = call.list(0).size() == call.list(1).size();
  Item result = number(same_length);
  for (std::size_t i = 0; same_length && i < call.list(0).size(); ++i) {
    const Item each = call.recorder.compute("_operator.eq", {call.list(0)[i], call.list(1)[i]});
    result = i == 0 ? each : call.recorder.compute("_operator.and_", {result, each});
  }
  return one(equal ? result : call.recorder.compute("torch.sym_not", {result}));
}

std::optional<Items> is_same_object(const BuiltinCall& call, bool same) {
  const Item& a = call[0];
  const Item& b = call[1];
  bool alike = a.kind == b.kind && a.items == b.items && a.object == b.object;
  if (alike && a.kind == ItemKind::kTensor)
    alike = a.value.toTensor().is_same(b.value.toTensor());
  else if (alike && a.items == nullptr && a.object == nullptr)
    alike = a.value.is(b.value);
  if (a.kind == ItemKind::kNumber && b.kind == ItemKind::kNumber) return std::nullopt;
  return one(number(alike == same));
}

// A number out of a tensor's data, unless the tensor is itself a number or a constant of the script.
std::optional<Items> read_number(const BuiltinCall& call) {
  if (!call.is(0, ItemKind::kTensor)) return std::nullopt;
  const at::Tensor& value = call[0].value.toTensor();
  const std::string kind = call.node.kind().toUnqualString();
  Item result = number(value.item());
  if (kind == "Int" || kind == "IntImplicit") result.value = value.item().toLong();
  if (kind == "Float" || kind == "FloatImplicit") result.value = value.item().toDouble();
  if (kind == "Bool" || kind == "is_nonzero") result.value = value.item().toBool();
  result.data = call[0].id >= 0;
  return one(std::move(result));
}

std::optional<Items> number_to_tensor(const BuiltinCall& call) {
  if (call[0].id >= 0 || call[0].data) return one(call[0]);  // stays a number until a real tensor meets it
  return std::nullopt;
}

std::optional<Items> concatenate(const BuiltinCall& call) {
  if (call[0].items == nullptr) return std::nullopt;
  Items items = call.list(0);
  items.insert(items.end(), call.list(1).begin(), call.list(1).end());
  return one(sequence(ItemKind::kList, std::move(items)));
}

std::optional<Items> pop(const BuiltinCall& call) {
  Items& items = call.list(0);
  const std::size_t at = position(call.inputs.size() > 1 ? call.index(1) : -1, items);
  Item taken = items[at];
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return one(std::move(taken));
}

// `x.to(device)` and its like in the spelling that torch itself has.
std::optional<Items> convert(const BuiltinCall& call) {
  const std::string& overload = call.node.schema().overload_name();
  const Item none = plain({});
  if (overload == "prim_other" || (overload == "prim_dtype" && call[1].is_none())) return same(call);
  if (overload == "prim_dtype")
    return call.recorder.call(*find_operator("torch.ops.aten.to.dtype"), {call[0], call[1], call[2], call[3], none});
  if (overload != "prim_Device") return std::nullopt;
  const at::Tensor& value = call[0].value.toTensor();
  const Item device = call[1].is_none() ? plain(value.device()) : call[1];
  const Item dtype = call[2].is_none() ? number(static_cast<std::int64_t>(value.scalar_type())) : call[2];
  return call.recorder.call(*find_operator("torch.ops.aten.to.device"),
                            {call[0], device, dtype, call[3], call[4], none});
}

const std::unordered_map<std::string, Builtin>& table() {
  const auto nothing = [](const BuiltinCall&) { return Items{}; };
  const auto copied = [](const BuiltinCall& call) -> std::optional<Items> {
    if (call[0].items == nullptr) return std::nullopt;
    return one(sequence(ItemKind::kList, call.list(0)));
  };
  static const std::unordered_map<std::string, Builtin> entries_by_kind = {
      {"prim::TupleConstruct", [](const BuiltinCall& c) { return one(sequence(ItemKind::kTuple, c.inputs)); }},
      {"prim::ListConstruct", [](const BuiltinCall& c) { return one(sequence(ItemKind::kList, c.inputs)); }},
      {"prim::DictConstruct",
       [](const BuiltinCall& c) {
         Item dict = sequence(ItemKind::kDict, {});
         for (std::size_t i = 0; i + 1 < c.inputs.size(); i += 2) {
           Items entry{dict, c[i], c[i + 1]};
           set_item({c.node, entry, c.recorder});
         }
         return one(dict);
       }},
      {"prim::TupleUnpack", [](const BuiltinCall& c) { return std::optional(c.list(0)); }},
      {"prim::ListUnpack", [](const BuiltinCall& c) { return std::optional(c.list(0)); }},
      {"prim::TupleIndex", get_item},
      {"prim::TupleSlice",
       [](const BuiltinCall& c) {
         const auto first = c.list(0).begin();
         Items taken(first + c.node.i(c10::attr::beg), first + c.node.i(c10::attr::end));
         return one(sequence(ItemKind::kTuple, std::move(taken)));
       }},
      {"aten::__getitem__", get_item},
      {"aten::_set_item", set_item},
      {"aten::__contains__", contains},
      {"aten::keys", [](const BuiltinCall& c) { return every_second(c, 0); }},
      {"aten::values", [](const BuiltinCall& c) { return every_second(c, 1); }},
      {"aten::items", entries},
      {"aten::slice", slice},
      {"aten::size", sizes},
      {"prim::shape", sizes},
      {"aten::numel", element_count},
      {"aten::len", length},
      {"aten::eq", [](const BuiltinCall& c) { return compare_lists(c, true); }},
      {"aten::ne", [](const BuiltinCall& c) { return compare_lists(c, false); }},
      {"aten::__is__", [](const BuiltinCall& c) { return is_same_object(c, true); }},
      {"aten::__isnot__", [](const BuiltinCall& c) { return is_same_object(c, false); }},
      {"aten::add", concatenate},
      {"aten::append",
       [](const BuiltinCall& c) {
         c.list(0).push_back(c[1]);
         return one(c[0]);
       }},
      {"aten::extend",
       [](const BuiltinCall& c) {
         const Items more = c.list(1);
         c.list(0).insert(c.list(0).end(), more.begin(), more.end());
         return Items{};
       }},
      {"aten::insert",
       [](const BuiltinCall& c) {
         c.list(0).insert(c.list(0).begin() + c.index(1), c[2]);
         return Items{};
       }},
      {"aten::pop", pop},
      {"aten::clear",
       [](const BuiltinCall& c) {
         c.list(0).clear();
         return Items{};
       }},
      {"aten::reverse",
       [](const BuiltinCall& c) {
         std::reverse(c.list(0).begin(), c.list(0).end());
         return Items{};
       }},
      {"aten::list", copied},
      {"aten::copy", copied},
      {"aten::Int", read_number},
      {"aten::Float", read_number},
      {"aten::Bool", read_number},
      {"aten::IntImplicit", read_number},
      {"aten::FloatImplicit", read_number},
      {"aten::ScalarImplicit", read_number},
      {"aten::item", read_number},
      {"aten::is_nonzero", read_number},
      {"prim::NumToTensor", number_to_tensor},
      {"prim::unchecked_cast", same},
      {"prim::unchecked_unwrap_optional", same},
      {"aten::_unwrap_optional", same},
      {"prim::Uninitialized", [](const BuiltinCall&) { return one(plain({})); }},
      {"prim::Print", nothing},
      {"aten::warn", nothing},
      {"aten::to", convert},
      {"prim::data",
       [](const BuiltinCall& c) {
         return std::optional(c.recorder.call(*find_operator("torch.ops.aten.detach.default"), {c[0]}));
       }},
      {"aten::is_grad_enabled", [](const BuiltinCall& c) { return one(number(c.recorder.grad_enabled())); }},
      {"aten::set_grad_enabled",
       [](const BuiltinCall& c) {
         c.recorder.set_grad_enabled(c[0].value.toBool());
         return Items{};
       }},
  };
  return entries_by_kind;
}

}  // namespace

std::optional<Items> call_builtin(const torch::jit::Node& node, Items& inputs, Recorder& recorder) {
  const auto found = table().find(node.kind().toQualString());
  if (found == table().end()) return std::nullopt;
  return found->second(BuiltinCall{node, inputs, recorder});
}

}  // namespace ravnest::graph::script
