// One table of a settings file, read key by key, so that every complaint names the file, the line and the key.
//
// What is wrong is noted, and read as if it were not there, so that a reader finds all that is wrong in one go; it
// looks at the complaints at the end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/optim/options.h"
#include "ravnest/train/config/complaints.h"
#include "ravnest/train/config/lines.h"
#include "ravnest/train/config/toml.h"

namespace ravnest::train {

struct Between {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

class Section {
 public:
  // `name` is the table's own, "data"; empty for the file's top. The table and the complaints have to outlive it. With
  // `keys`, any other key in it is wrong.
  Section(const TomlTable& table, Complaints& complaints, std::string name, int line,
          std::span<const std::string_view> keys = {});

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Whether it is there and true or false.
  bool is_flag(std::string_view key) const;

  // Each is the value of that key, or nothing where it is not there or wrong.
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::int64_t> whole(std::string_view key, Between range) const;
  std::optional<double> number(std::string_view key, optim::OptionRange range = {}) const;
  std::optional<std::string> word(std::string_view key) const;  // not empty
  std::optional<std::string> word(std::string_view key, std::span<const std::string_view> choices) const;
  std::optional<std::vector<std::int64_t>> wholes(std::string_view key, Between range) const;
  std::optional<std::vector<std::string>> words(std::string_view key) const;  // a single one is a list of one

  // All keys but those in `without`, as options of an optimizer or a schedule.
  optim::Options options(std::span<const std::string_view> without) const;

  // Where it stands, for later.
  Lines lines() const;

  // The table of that key.
  std::optional<Section> section(std::string_view key, std::span<const std::string_view> keys = {}) const;

  // Says that `key` is missing, and what it would be, unless it was just mistyped.
  void lacks(std::string_view key, std::string_view what) const;
  // Complains of a key that is there.
  void fail(std::string_view key, std::string_view what) const;

 private:
  const TomlValue* find(std::string_view key) const;
  std::string full_name(std::string_view key) const;
  void wrong(const TomlValue& value, std::string_view key, std::string_view wanted) const;

  const TomlTable* table_;
  Complaints* complaints_;
  std::string name_;
  int line_;
};

}  // namespace ravnest::train
