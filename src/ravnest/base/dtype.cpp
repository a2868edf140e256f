#include "ravnest/base/dtype.h"

#include <algorithm>
#include <array>

namespace ravnest {
namespace {

struct Row {
  DType dtype;
  int schema_number;
  std::size_t item_size;
  std::string_view name;
  std::string_view storage_class;
};

// In the order of the enum, so that a dtype is its own index.
constexpr std::array<Row, 21> kRows = {{
    {DType::kUInt8, 1, 1, "uint8", "ByteStorage"},
    {DType::kInt8, 2, 1, "int8", "CharStorage"},
    {DType::kInt16, 3, 2, "int16", "ShortStorage"},
    {DType::kInt32, 4, 4, "int32", "IntStorage"},
    {DType::kInt64, 5, 8, "int64", "LongStorage"},
    {DType::kFloat16, 6, 2, "float16", "HalfStorage"},
    {DType::kFloat32, 7, 4, "float32", "FloatStorage"},
    {DType::kFloat64, 8, 8, "float64", "DoubleStorage"},
    {DType::kComplex32, 9, 4, "complex32", "ComplexHalfStorage"},
    {DType::kComplex64, 10, 8, "complex64", "ComplexFloatStorage"},
    {DType::kComplex128, 11, 16, "complex128", "ComplexDoubleStorage"},
    {DType::kBool, 12, 1, "bool", "BoolStorage"},
    {DType::kBFloat16, 13, 2, "bfloat16", "BFloat16Storage"},
    {DType::kUInt16, 28, 2, "uint16", "UInt16Storage"},
    {DType::kFloat8E4M3FN, 29, 1, "float8_e4m3fn", "Float8_e4m3fnStorage"},
    {DType::kFloat8E5M2, 30, 1, "float8_e5m2", "Float8_e5m2Storage"},
    {DType::kFloat8E4M3FNUZ, 31, 1, "float8_e4m3fnuz", "Float8_e4m3fnuzStorage"},
    {DType::kFloat8E5M2FNUZ, 32, 1, "float8_e5m2fnuz", "Float8_e5m2fnuzStorage"},
    {DType::kFloat8E8M0FNU, 33, 1, "float8_e8m0fnu", "Float8_e8m0fnuStorage"},
    {DType::kUInt32, 34, 4, "uint32", "UInt32Storage"},
    {DType::kUInt64, 35, 8, "uint64", "UInt64Storage"},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

constexpr int kStridedNumber = 7;

}  // namespace

std::size_t item_size(DType dtype) { return row(dtype).item_size; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::string_view storage_class(DType dtype) { return row(dtype).storage_class; }
int schema_number(DType dtype) { return row(dtype).schema_number; }
int schema_number(MemoryFormat format) { return static_cast<int>(format) + 1; }
int schema_number(StridedLayout) { return kStridedNumber; }

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return false;
    default: return true;
  }
}

std::optional<DType> dtype_from_schema(std::int64_t number) {
  const auto* found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.schema_number == number; });
  return found == kRows.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<MemoryFormat> memory_format_from_schema(std::int64_t number) {
  if (number < 1 || number > 4) return std::nullopt;
  return static_cast<MemoryFormat>(number - 1);
}

std::optional<StridedLayout> layout_from_schema(std::int64_t number) {
  return number == kStridedNumber ? std::optional(StridedLayout{}) : std::nullopt;
}

}  // namespace ravnest
