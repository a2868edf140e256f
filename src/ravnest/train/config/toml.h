// TOML as plain values that know their lines; the one place where toml++ is met is behind it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::train {

struct TomlValue;
struct TomlEntry;
using TomlList = std::vector<TomlValue>;
using TomlTable = std::vector<TomlEntry>;  // in the order of their names; each once

// Dates and times, of which nothing here is made.
struct TomlTime {};

struct TomlValue {
  int line = 0;  // from 1
  std::variant<bool, std::int64_t, double, std::string, TomlTime, TomlList, TomlTable> value;
};

struct TomlEntry {
  std::string key;
  TomlValue value;
};

// kInvalid, with the file `name`, the line and the column, where it is not TOML. Nesting has an end, memory is
// proportional to the text. Safe from any thread.
Result<TomlTable> parse_toml(std::string_view text, std::string_view name);

}  // namespace ravnest::train
