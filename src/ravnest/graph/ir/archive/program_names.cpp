#include "ravnest/graph/ir/archive/program_names.h"

#include <cstdint>

#include "ravnest/graph/ir/archive/program.h"

namespace ravnest::ir {
namespace {

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

template <class T, class Function>
std::vector<T> list(const Field& field, Function&& read) {
  std::vector<T> result;
  field.for_each([&](const Field& item) { result.push_back(read(item)); });
  return result;
}

}  // namespace

std::optional<ValueId> Names::find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

Ref Names::named(const Field& name, ValueKind kind) const {
  const auto found = ids_.find(name.string());
  if (found == ids_.end()) name.fail(text("value \"", name.string(), "\" is not declared"));
  if (values_[found->second].kind != kind) name.fail(text("value \"", name.string(), "\" is of another kind"));
  return Ref{found->second};
}

IntOrRef Names::int_or_ref(const Field& field) const {
  const auto [tag, value] = field.tagged();
  if (tag == "as_int") return value.integer();
  if (tag == "as_name") return named(value, ValueKind::kSymInt);
  field.refuse(text("unknown member ", tag));
}

// A symbol by name, or the plain number in its place.
Argument Names::symbol(const Field& field, ValueKind kind) const {
  const auto [tag, value] = field.tagged();
  if (tag == "as_name") return named(value, kind);
  if (tag == "as_int") return value.integer();
  if (tag == "as_bool") return value.boolean();
  if (tag == "as_float") return value.number();
  field.refuse(text("unknown member ", tag));
}

std::optional<Ref> Names::optional_tensor(const Field& field) const {
  const auto [tag, value] = field.tagged();
  if (tag == "as_none") return std::nullopt;
  if (tag == "as_tensor") return tensor(value);
  field.refuse(text("unknown member ", tag));
}

Argument Names::list_argument(const std::string& tag, const Field& value) const {
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

Argument Names::argument(const Field& field) const {
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

std::optional<std::string> name_in(const Field& argument) {
  const auto [tag, value] = argument.tagged();
  if (tag == "as_tensor") return value["name"].string();
  if (tag != "as_sym_int" && tag != "as_sym_float" && tag != "as_sym_bool") return std::nullopt;
  const auto [kind, name] = value.tagged();
  return kind == "as_name" ? std::optional(name.string()) : std::nullopt;
}

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

}  // namespace ravnest::ir
