// What a checkpoint's folder and its files are called. Names from a file become paths only where they are of this form.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ravnest/base/text.h"

namespace ravnest::checkpoint {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";
inline constexpr std::string_view kPartSuffix = ".safetensors";
inline constexpr std::string_view kFolderPrefix = "update_";

// "update_000000120": in the order of their names they are in the order of their updates.
inline std::string folder_name(std::uint64_t updates) {
  const std::string digits = std::to_string(updates);
  constexpr std::size_t kDigits = 9;
  return text(kFolderPrefix, std::string(kDigits - std::min(kDigits, digits.size()), '0'), digits);
}

// The updates that a folder's name says, where it is one of these.
inline std::optional<std::uint64_t> updates_of(std::string_view name) {
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kFolderPrefix.size());
  std::uint64_t updates = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), updates);
  if (error != std::errc() || end != digits.data() + digits.size() || folder_name(updates) != name) return std::nullopt;
  return updates;
}

// Whether a part may be called that: letters, digits and underscores.
inline bool is_part_name(std::string_view name) {
  constexpr std::size_t kMost = 150;
  return !name.empty() && name.size() <= kMost && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Whether it is the name of a part's file.
inline bool is_part_file(std::string_view name) {
  return name.ends_with(kPartSuffix) && is_part_name(name.substr(0, name.size() - kPartSuffix.size()));
}

}  // namespace ravnest::checkpoint
