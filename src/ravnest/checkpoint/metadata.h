// The JSON texts in a safetensors file's metadata, and what they are made of. Only for this room; what throws throws
// DecodeError (base/json_field.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"

namespace ravnest::checkpoint {

inline nlohmann::json metadata_json(const archive::Safetensors& contents, const std::string& key) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) throw DecodeError{corrupt(key, " is not in the file's metadata")};
  Result<nlohmann::json> parsed = parse_json_without_repeats(found->second, key);
  if (!parsed.ok()) throw DecodeError{parsed.status()};
  return std::move(parsed).value();
}

inline std::vector<std::string> string_list(const Field& field) {
  std::vector<std::string> list;
  field.for_each([&](const Field& item) { list.push_back(item.string()); });
  return list;
}

inline std::uint64_t count_of(const Field& field) {
  const std::int64_t number = field.integer();
  if (number < 0) field.fail("a negative number");
  return static_cast<std::uint64_t>(number);
}

}  // namespace ravnest::checkpoint
