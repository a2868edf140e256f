// What both ways of the safetensors format share. Only for this folder.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "ravnest/graph/ir/dtype.h"

namespace ravnest::checkpoint {

inline constexpr std::string_view kMetadataKey = "__metadata__";

inline constexpr std::array<std::pair<ir::DType, std::string_view>, 10> kSafetensorsTypes = {{
    {ir::DType::kBool, "BOOL"},
    {ir::DType::kUInt8, "U8"},
    {ir::DType::kInt8, "I8"},
    {ir::DType::kInt16, "I16"},
    {ir::DType::kInt32, "I32"},
    {ir::DType::kInt64, "I64"},
    {ir::DType::kFloat16, "F16"},
    {ir::DType::kBFloat16, "BF16"},
    {ir::DType::kFloat32, "F32"},
    {ir::DType::kFloat64, "F64"},
}};

inline std::optional<std::string_view> safetensors_name(ir::DType dtype) {
  const auto* found = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const auto& type) { return type.first == dtype; });
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->second);
}

inline std::optional<ir::DType> safetensors_type(std::string_view name) {
  const auto* found = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const auto& type) { return type.second == name; });
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace ravnest::checkpoint
