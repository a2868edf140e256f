#include "ravnest/graph/operators/boxing.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

#include "ravnest/graph/operators/tensors.h"

namespace ravnest::graph {
namespace {

using c10::IValue;
using c10::TypeKind;

bool is_whole(TypeKind kind) { return kind == TypeKind::IntType || kind == TypeKind::SymIntType; }

template <class T, class Values>
IValue list_of(const Values& values) {
  c10::List<T> list;
  list.reserve(values.size());
  for (const auto& value : values) list.push_back(static_cast<T>(value));
  return list;
}

class Boxer {
 public:
  Boxer(const c10::Argument& declared, c10::Device device)
      : declared_(declared), type_(plain_type(declared)), kind_(type_->kind()), device_(device) {}

  Result<IValue> operator()(ir::None) const { return IValue(); }
  Result<IValue> operator()(bool value) const {
    // Captured on a machine without cuDNN, the flag would keep a GPU from using its own.
    if (declared_.name() == "cudnn_enabled" && device_.is_cuda()) return IValue(true);
    if (kind_ == TypeKind::FloatType) return IValue(value ? 1.0 : 0.0);
    if (is_whole(kind_)) return IValue(static_cast<std::int64_t>(value));
    return scalar(IValue(value));
  }
  Result<IValue> operator()(std::int64_t value) const {
    if (kind_ == TypeKind::FloatType) return IValue(static_cast<double>(value));
    if (kind_ == TypeKind::ListType) return repeated(value);
    return scalar(IValue(value));
  }
  Result<IValue> operator()(double value) const {
    if (kind_ == TypeKind::ListType) return IValue(list_of<double>(std::vector<double>(count(), value)));
    return scalar(IValue(value));
  }
  Result<IValue> operator()(std::complex<double> value) const {
    return scalar(IValue(c10::complex<double>(value.real(), value.imag())));
  }
  Result<IValue> operator()(const std::string& value) const { return IValue(value); }
  Result<IValue> operator()(DType value) const { return IValue(static_cast<std::int64_t>(to_torch(value))); }
  Result<IValue> operator()(MemoryFormat value) const { return IValue(static_cast<std::int64_t>(to_torch(value))); }
  Result<IValue> operator()(StridedLayout) const { return IValue(static_cast<std::int64_t>(at::kStrided)); }
  Result<IValue> operator()(const Device&) const { return IValue(device_); }
  Result<IValue> operator()(const std::vector<std::string>& values) const {
    return IValue(list_of<std::string>(values));
  }
  Result<IValue> operator()(const std::vector<bool>& values) const { return numbers(values); }
  Result<IValue> operator()(const std::vector<std::int64_t>& values) const { return numbers(values); }
  Result<IValue> operator()(const std::vector<double>& values) const { return numbers(values); }

  template <class Other>
  Result<IValue> operator()(const Other&) const {
    return internal("argument ", declared_.name(), " is not a constant");
  }

 private:
  IValue scalar(IValue value) const {
    return kind_ == TypeKind::TensorType ? IValue(wrapped_number(value)) : std::move(value);
  }

  std::size_t count() const { return static_cast<std::size_t>(declared_.N().value_or(1)); }

  TypeKind element() const { return type_->expectRef<c10::ListType>().getElementType()->kind(); }

  Result<IValue> repeated(std::int64_t value) const { return numbers(std::vector<std::int64_t>(count(), value)); }

  template <class T>
  Result<IValue> numbers(const std::vector<T>& values) const {
    if (kind_ != TypeKind::ListType)
      return unsupported("argument ", declared_.name(), ": a list for ", type_->str(), " is not supported");
    switch (element()) {
      case TypeKind::IntType:
      case TypeKind::SymIntType: return IValue(list_of<std::int64_t>(values));
      case TypeKind::FloatType: return IValue(list_of<double>(values));
      case TypeKind::BoolType: return IValue(list_of<bool>(values));
      case TypeKind::TensorType:
        if (values.empty()) return IValue(c10::List<at::Tensor>());
        break;
      case TypeKind::NumberType: {
        auto list = c10::impl::GenericList(c10::NumberType::get());
        for (const T value : values) list.push_back(IValue(value));
        return IValue(list);
      }
      default: break;
    }
    return unsupported("argument ", declared_.name(), ": numbers for ", type_->str(), " are not supported");
  }

  const c10::Argument& declared_;
  c10::TypePtr type_;
  TypeKind kind_;
  c10::Device device_;
};

}  // namespace

c10::TypePtr plain_type(const c10::Argument& declared) {
  c10::TypePtr type = declared.type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type;
}

Result<IValue> box_constant(const ir::Argument& argument, const c10::Argument& declared, c10::Device device) {
  return std::visit(Boxer(declared, device), argument);
}

at::Tensor wrapped_number(const IValue& number) {
  at::Tensor tensor =
      at::scalar_tensor(number.toScalar(), at::TensorOptions().dtype(number.isDouble()          ? at::kDouble
                                                                     : number.isBool()          ? at::kBool
                                                                     : number.isComplexDouble() ? at::kComplexDouble
                                                                                                : at::kLong));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace ravnest::graph
