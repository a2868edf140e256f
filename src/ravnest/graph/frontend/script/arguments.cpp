#include "ravnest/graph/frontend/script/arguments.h"

#include <nlohmann/json.hpp>

#include "ravnest/graph/frontend/script/recorder.h"
#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph::script {
namespace {

using c10::TypeKind;

c10::TypePtr declared_type(const c10::Argument& declared) {
  c10::TypePtr type = declared.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type;
}

MemoryFormat memory_format(std::int64_t number) {
  switch (static_cast<at::MemoryFormat>(number)) {
    case at::MemoryFormat::Contiguous: return MemoryFormat::kContiguous;
    case at::MemoryFormat::ChannelsLast: return MemoryFormat::kChannelsLast;
    case at::MemoryFormat::ChannelsLast3d: return MemoryFormat::kChannelsLast3d;
    case at::MemoryFormat::Preserve: return MemoryFormat::kPreserve;
    default: throw Refusal{unsupported("memory format ", number)};
  }
}

ir::Argument number_argument(const Item& item, TypeKind slot, Recorder& recorder) {
  const bool takes_computed = slot == TypeKind::IntType || slot == TypeKind::SymIntType ||
                              slot == TypeKind::FloatType || slot == TypeKind::NumberType;
  if (item.id >= 0 && !item.data && takes_computed) return ir::Ref{item.id};
  recorder.fix(item);
  switch (slot) {
    case TypeKind::ScalarTypeType: return from_torch(static_cast<at::ScalarType>(item.value.toInt()));
    case TypeKind::MemoryFormatType: return memory_format(item.value.toInt());
    case TypeKind::LayoutType:
      if (static_cast<at::Layout>(item.value.toInt()) != at::kStrided)
        throw Refusal{unsupported("tensors that are not dense")};
      return StridedLayout{};
    case TypeKind::FloatType:
      return item.value.isInt() ? ir::Argument(static_cast<double>(item.value.toInt())) : constant_argument(item.value);
    default: return constant_argument(item.value);
  }
}

template <class T, class Get>
ir::Argument constants(const Item& list, Recorder& recorder, Get&& get) {
  std::vector<T> values;
  for (const Item& each : *list.items) {
    recorder.fix(each);
    values.push_back(get(each.value));
  }
  return values;
}

ir::Argument size_list(const Item& list, Recorder& recorder) {
  bool computed = false;
  std::vector<ir::IntOrRef> values;
  for (const Item& each : *list.items) {
    computed = computed || each.id >= 0;
    if (each.id >= 0)
      values.emplace_back(ir::Ref{each.id});
    else
      values.emplace_back(each.value.toInt());
  }
  if (computed) return values;
  return constants<std::int64_t>(list, recorder, [](const c10::IValue& value) { return value.toInt(); });
}

ir::Argument tensors(const Item& list, bool optional) {
  std::vector<ir::Ref> refs;
  std::vector<std::optional<ir::Ref>> optionals;
  for (const Item& each : *list.items) {
    if (each.is_none() && !optional) throw Refusal{unsupported("None in a list of tensors")};
    if (!optional) refs.push_back({each.id});
    optionals.push_back(each.is_none() ? std::nullopt : std::optional(ir::Ref{each.id}));
  }
  return optional ? ir::Argument(std::move(optionals)) : ir::Argument(std::move(refs));
}

ir::Argument list_argument(const Item& list, const c10::Type& type, Recorder& recorder) {
  const auto* list_type = type.castRaw<c10::ListType>();
  if (list_type == nullptr) throw Refusal{unsupported("a list where ", type.str(), " is wanted")};
  for (const Item& each : *list.items) {
    if (each.data) recorder.fix(each);
  }
  switch (list_type->getElementType()->kind()) {
    case TypeKind::TensorType: return tensors(list, false);
    case TypeKind::OptionalType: return tensors(list, true);
    case TypeKind::IntType:
    case TypeKind::SymIntType: return size_list(list, recorder);
    case TypeKind::FloatType:
      return constants<double>(list, recorder, [](const c10::IValue& value) {
        return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
      });
    case TypeKind::BoolType:
      return constants<bool>(list, recorder, [](const c10::IValue& value) { return value.toBool(); });
    case TypeKind::StringType:
      return constants<std::string>(list, recorder, [](const c10::IValue& value) { return value.toStringRef(); });
    default: throw Refusal{unsupported("an argument of type ", type.str())};
  }
}

}  // namespace

ir::Argument constant_argument(const c10::IValue& value) {
  if (value.isNone()) return ir::None{};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isDevice()) {
    const c10::Device device = value.toDevice();
    return Device{c10::DeviceTypeName(device.type(), true),
                  device.has_index() ? std::optional<int>(device.index()) : std::nullopt};
  }
  throw Refusal{unsupported("a value of type ", value.tagKind())};
}

ir::Argument to_argument(const Item& item, const c10::Argument& declared, Recorder& recorder) {
  const c10::TypePtr type = declared_type(declared);
  try {
    switch (item.kind) {
      case ItemKind::kTensor: return ir::Ref{item.id};
      case ItemKind::kNumber: return number_argument(item, type->kind(), recorder);
      case ItemKind::kList:
      case ItemKind::kTuple: return list_argument(item, *type, recorder);
      case ItemKind::kPlain: return constant_argument(item.value);
      default: throw Refusal{unsupported("a value that is no tensor, number or list")};
    }
  } catch (const Refusal& refusal) {
    throw Refusal{refusal.status.with_context("argument " + declared.name())};
  }
}

std::string dict_context(const Item& dict) {
  nlohmann::json keys = nlohmann::json::array();
  for (std::size_t i = 0; i < dict.items->size(); i += 2) {
    const Item& key = (*dict.items)[i];
    if (!key.value.isString()) throw Refusal{unsupported("a dict whose keys are not strings")};
    keys.push_back(key.value.toStringRef());
  }
  return keys.dump();
}

}  // namespace ravnest::graph::script
