#include "ravnest/graph/frontend/script/item.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

namespace ravnest::graph::script {
namespace {

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (type == nullptr) return c10::AnyType::get();
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

c10::IValue to_list(const Item& item, const c10::TypePtr& type) {
  const auto list_type = type->cast<c10::ListType>();
  const c10::TypePtr element = list_type ? list_type->getElementType() : c10::AnyType::get();
  c10::impl::GenericList list(element);
  for (const Item& each : *item.items) list.push_back(to_ivalue(each, element));
  return list;
}

c10::IValue to_tuple(const Item& item, const c10::TypePtr& type) {
  const auto tuple_type = type->cast<c10::TupleType>();
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < item.items->size(); ++i) {
    const bool typed = tuple_type && i < tuple_type->elements().size();
    values.push_back(to_ivalue((*item.items)[i], typed ? tuple_type->elements()[i] : nullptr));
  }
  return c10::ivalue::Tuple::create(std::move(values));
}

c10::IValue to_dict(const Item& item, const c10::TypePtr& type) {
  const auto dict_type = type->cast<c10::DictType>();
  if (!dict_type) throw Refusal{unsupported("a dict where ", type->str(), " is wanted")};
  c10::impl::GenericDict dict(dict_type->getKeyType(), dict_type->getValueType());
  for (std::size_t i = 0; i + 1 < item.items->size(); i += 2)
    dict.insert(to_ivalue((*item.items)[i], dict_type->getKeyType()),
                to_ivalue((*item.items)[i + 1], dict_type->getValueType()));
  return dict;
}

}  // namespace

std::string message_of(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  return known != nullptr ? known->what_without_backtrace() : error.what();
}

Item plain(c10::IValue value) {
  Item item;
  item.value = std::move(value);
  return item;
}

Item number(c10::IValue value, ir::ValueId id) {
  Item item{ItemKind::kNumber};
  item.value = std::move(value);
  item.id = id;
  return item;
}

Item tensor(at::Tensor value, ir::ValueId id) {
  Item item{ItemKind::kTensor};
  item.value = std::move(value);
  item.id = id;
  return item;
}

Item sequence(ItemKind kind, std::vector<Item> items) {
  Item item{kind};
  item.items = std::make_shared<std::vector<Item>>(std::move(items));
  return item;
}

Item from_ivalue(const c10::IValue& value, const std::function<Item(const c10::IValue&)>& leaf) {
  if (value.isTensor()) return value.toTensor().defined() ? leaf(value) : plain({});
  if (value.isObject()) return leaf(value);
  if (is_number(value)) return number(value);
  std::vector<Item> items;
  if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) items.push_back(from_ivalue(each, leaf));
    return sequence(ItemKind::kList, std::move(items));
  }
  if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) items.push_back(from_ivalue(each, leaf));
    return sequence(ItemKind::kTuple, std::move(items));
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      items.push_back(from_ivalue(entry.key(), leaf));
      items.push_back(from_ivalue(entry.value(), leaf));
    }
    return sequence(ItemKind::kDict, std::move(items));
  }
  return plain(value);
}

Item from_constant(const c10::IValue& value) {
  return from_ivalue(value, [](const c10::IValue& each) {
    if (each.isTensor()) return tensor(each.toTensor());
    throw Refusal{unsupported("an object of class ", each.type()->str())};
  });
}

c10::IValue to_ivalue(const Item& item, const c10::TypePtr& type) {
  switch (item.kind) {
    case ItemKind::kList: return to_list(item, without_optional(type));
    case ItemKind::kTuple: return to_tuple(item, without_optional(type));
    case ItemKind::kDict: return to_dict(item, without_optional(type));
    case ItemKind::kObject:
      if (item.object->origin == nullptr) throw Refusal{unsupported("an object of class ", item.object->type->str())};
      return item.object->origin;
    case ItemKind::kNumber:
      if (without_optional(type)->kind() == c10::TypeKind::FloatType && item.value.isInt())
        return static_cast<double>(item.value.toInt());
      return item.value;
    default: return item.value;
  }
}

void for_each_leaf(Item& item, const std::function<void(Item&)>& visit) {
  if (item.kind == ItemKind::kNumber || item.kind == ItemKind::kTensor) visit(item);
  if (item.items == nullptr) return;
  for (Item& each : *item.items) for_each_leaf(each, visit);
}

}  // namespace ravnest::graph::script
