// Element types and devices as the model's data knows them, without torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ravnest {

enum class DType : std::uint8_t {
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128,
  kBool,
  kBFloat16,
  kUInt16,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kUInt32,
  kUInt64,
};

enum class MemoryFormat : std::uint8_t { kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

// The only layout that we run: every dense tensor. Archives with another one are refused.
struct StridedLayout {
  bool operator==(const StridedLayout&) const = default;
};

struct Device {
  std::string type = "cpu";
  std::optional<int> index;
  bool operator==(const Device&) const = default;
};

std::size_t item_size(DType dtype);
bool is_floating(DType dtype);  // real or complex: may carry a gradient

// "float32", "int64": the name that Python's torch uses.
std::string_view dtype_name(DType dtype);
// "FloatStorage": the class that a torch.save pickle names for a storage of this type.
std::string_view storage_class(DType dtype);

// The numbers that `.pt2` archives use for these; they are not c10's.
int schema_number(DType dtype);
int schema_number(MemoryFormat format);
int schema_number(StridedLayout layout);
std::optional<DType> dtype_from_schema(std::int64_t number);
std::optional<MemoryFormat> memory_format_from_schema(std::int64_t number);
std::optional<StridedLayout> layout_from_schema(std::int64_t number);

}  // namespace ravnest
