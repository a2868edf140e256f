// What both ways of the safetensors format share. Only for this folder.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "ravnest/base/dtype.h"

namespace ravnest::archive {

inline constexpr std::string_view kMetadataKey = "__metadata__";

inline constexpr std::array<std::pair<DType, std::string_view>, 10> kSafetensorsTypes = {{
    {DType::kBool, "BOOL"},
    {DType::kUInt8, "U8"},
    {DType::kInt8, "I8"},
    {DType::kInt16, "I16"},
    {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},
    {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"},
    {DType::kFloat32, "F32"},
    {DType::kFloat64, "F64"},
}};

inline std::optional<std::string_view> safetensors_name(DType dtype) {
  const auto* found = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const auto& type) { return type.first == dtype; });
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->second);
}

inline std::optional<DType> safetensors_type(std::string_view name) {
  const auto* found = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [&](const auto& type) { return type.second == name; });
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace ravnest::archive
