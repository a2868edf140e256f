#include "ravnest/train/toml.h"

#include <toml++/toml.h>

#include "ravnest/base/printable.h"

namespace ravnest::train {
namespace {

TomlTable converted(const toml::table& table);

TomlValue converted(const toml::node& node) {
  TomlValue value{static_cast<int>(node.source().begin.line), false};
  node.visit([&](const auto& each) {
    if constexpr (toml::is_table<decltype(each)>) {
      value.value = converted(each);
    } else if constexpr (toml::is_array<decltype(each)>) {
      TomlList list;
      for (const toml::node& item : each) list.push_back(converted(item));
      value.value = std::move(list);
    } else if constexpr (toml::is_boolean<decltype(each)> || toml::is_integer<decltype(each)> ||
                         toml::is_floating_point<decltype(each)> || toml::is_string<decltype(each)>) {
      value.value = each.get();
    } else {
      value.value = TomlTime();
    }
  });
  return value;
}

TomlTable converted(const toml::table& table) {
  TomlTable entries;
  for (const auto& [key, node] : table) {
    TomlValue value = converted(node);
    value.line = static_cast<int>(key.source().begin.line);
    entries.push_back({std::string(key.str()), std::move(value)});
  }
  return entries;
}

}  // namespace

Result<TomlTable> parse_toml(std::string_view text, std::string_view name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return invalid(name, ", line ", at.line, ", column ", at.column, ": ", printable(parsed.error().description()));
  }
  return converted(parsed.table());
}

}  // namespace ravnest::train
