#include "ravnest/train/config/section.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/base/words/nearest.h"

namespace ravnest::train {
namespace {

// A value as a message shows it.
std::string shown(const TomlValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) return text(*whole);
  if (const auto* real = std::get_if<double>(&value.value)) return text(*real);
  if (const auto* word = std::get_if<std::string>(&value.value))
    return text("\"", printable(word->size() > 60 ? word->substr(0, 60) + "..." : *word), "\"");
  if (std::holds_alternative<TomlTime>(value.value)) return "a date or time";
  return std::holds_alternative<TomlList>(value.value) ? "a list" : "a table";
}

std::string shown(Between range) {
  if (range.least == std::numeric_limits<std::int64_t>::min()) return "a whole number";
  if (range.most == std::numeric_limits<std::int64_t>::max()) return text("a whole number, at least ", range.least);
  return text("a whole number from ", range.least, " to ", range.most);
}

std::optional<double> as_number(const TomlValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&value.value);
  return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

std::optional<optim::Option> as_option(const TomlValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) return *whole;
  if (const auto* word = std::get_if<std::string>(&value.value)) return *word;
  if (const auto* list = std::get_if<TomlList>(&value.value)) {
    std::vector<double> numbers;
    for (const TomlValue& each : *list) {
      const std::optional<double> number = as_number(each);
      if (!number) return std::nullopt;
      numbers.push_back(*number);
    }
    return numbers;
  }
  const std::optional<double> number = as_number(value);
  return number ? std::optional<optim::Option>(*number) : std::nullopt;
}

}  // namespace

Section::Section(const TomlTable& table, Complaints& complaints, std::string name, int line,
                 std::span<const std::string_view> keys)
    : table_(&table), complaints_(&complaints), name_(std::move(name)), line_(line) {
  if (keys.empty()) return;
  for (const TomlEntry& entry : table) {
    if (std::ranges::find(keys, entry.key) != keys.end()) continue;
    const std::optional<std::string_view> meant = nearest(entry.key, keys);
    complaints.add(entry.value.line,
                   text("there is no key ", printable(full_name(entry.key.substr(0, 60))),
                        meant ? text("; did you mean ", *meant, "?") : text("; there are ", join(keys))));
    if (meant) complaints.mistyped(full_name(*meant));
  }
}

const TomlValue* Section::find(std::string_view key) const {
  const auto found = std::ranges::find(*table_, key, &TomlEntry::key);
  return found == table_->end() ? nullptr : &found->value;
}

std::string Section::full_name(std::string_view key) const {
  return name_.empty() ? std::string(key) : text(name_, ".", key);
}

void Section::lacks(std::string_view key, std::string_view what) const {
  if (complaints_->is_mistyped(full_name(key.starts_with('[') ? key.substr(1, key.size() - 2) : key))) return;
  complaints_->add(name_.empty() ? 0 : line_, text(full_name(key), " is missing: ", what));
}

void Section::fail(std::string_view key, std::string_view what) const {
  const TomlValue* value = find(key);
  complaints_->add(value == nullptr ? line_ : value->line, text(full_name(key), ": ", what));
}

void Section::wrong(const TomlValue& value, std::string_view key, std::string_view wanted) const {
  complaints_->add(value.line,
                   text(printable(full_name(key.substr(0, 60))), " has to be ", wanted, ", not ", shown(value)));
}

bool Section::is_flag(std::string_view key) const {
  const TomlValue* value = find(key);
  return value != nullptr && std::holds_alternative<bool>(value->value);
}

std::optional<bool> Section::flag(std::string_view key) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->value)) return *flag;
  wrong(*value, key, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> Section::whole(std::string_view key, Between range) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* whole = std::get_if<std::int64_t>(&value->value);
  if (whole != nullptr && *whole >= range.least && *whole <= range.most) return *whole;
  wrong(*value, key, shown(range));
  return std::nullopt;
}

std::optional<double> Section::number(std::string_view key, optim::OptionRange range) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = as_number(*value);
  if (number && range.contains(*number)) return number;
  wrong(*value, key, optim::words(range));
  return std::nullopt;
}

std::optional<std::string> Section::word(std::string_view key) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* word = std::get_if<std::string>(&value->value);
  if (word != nullptr && !word->empty()) return *word;
  wrong(*value, key, "a word in quotes");
  return std::nullopt;
}

std::optional<std::string> Section::word(std::string_view key, std::span<const std::string_view> choices) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* word = std::get_if<std::string>(&value->value);
  if (word != nullptr && std::ranges::find(choices, *word) != choices.end()) return *word;
  std::string wanted;
  for (std::size_t i = 0; i < choices.size(); ++i)
    wanted += text(i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ", "\"", choices[i], "\"");
  complaints_->add(value->line, text(full_name(key), " has to be ", wanted, ", not ", shown(*value),
                                     word == nullptr ? "" : did_you_mean(*word, choices)));
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Section::wholes(std::string_view key, Between range) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* list = std::get_if<TomlList>(&value->value);
  if (list == nullptr) {
    wrong(*value, key, "a list of whole numbers");
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const TomlValue& each = (*list)[i];
    const auto* whole = std::get_if<std::int64_t>(&each.value);
    if (whole != nullptr && *whole >= range.least && *whole <= range.most)
      numbers.push_back(*whole);
    else
      wrong(each, text(key, "[", i, "]"), shown(range));
  }
  return numbers.size() == list->size() ? std::optional(numbers) : std::nullopt;
}

std::optional<std::vector<std::string>> Section::words(std::string_view key) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* list = std::get_if<TomlList>(&value->value);
  if (list == nullptr) {
    const std::optional<std::string> one = word(key);
    return one ? std::optional(std::vector{*one}) : std::nullopt;
  }
  if (list->empty()) wrong(*value, key, "one word in quotes, or a list of at least one");
  std::vector<std::string> words;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* one = std::get_if<std::string>(&(*list)[i].value);
    if (one != nullptr && !one->empty())
      words.push_back(*one);
    else
      wrong((*list)[i], text(key, "[", i, "]"), "a word in quotes");
  }
  return !words.empty() && words.size() == list->size() ? std::optional(words) : std::nullopt;
}

optim::Options Section::options(std::span<const std::string_view> without) const {
  optim::Options options;
  for (const TomlEntry& entry : *table_) {
    if (std::ranges::find(without, entry.key) != without.end()) continue;
    std::optional<optim::Option> option = as_option(entry.value);
    if (option)
      options.emplace(entry.key, std::move(*option));
    else
      wrong(entry.value, entry.key, "true or false, a number, a word in quotes or a list of numbers");
  }
  return options;
}

Lines Section::lines() const {
  Lines lines{complaints_->file(), name_, line_, {}};
  for (const TomlEntry& entry : *table_) lines.keys.emplace(entry.key, entry.value.line);
  return lines;
}

std::optional<Section> Section::section(std::string_view key, std::span<const std::string_view> keys) const {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* table = std::get_if<TomlTable>(&value->value);
  if (table != nullptr) return Section(*table, *complaints_, full_name(key), value->line, keys);
  wrong(*value, key, text("a table, [", key, "]"));
  return std::nullopt;
}

}  // namespace ravnest::train
