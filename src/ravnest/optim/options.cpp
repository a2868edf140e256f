#include "ravnest/optim/options.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace ravnest::optim {
namespace {

std::string_view kind(const Option& option) {
  switch (option.index()) {
    case 0: return "true or false";
    case 1: return "a whole number";
    case 2: return "a number";
    case 3: return "a word";
    default: return "a list of numbers";
  }
}

std::string shown(const Option& option) {
  std::ostringstream out;
  out << std::boolalpha;
  if (const auto* list = std::get_if<std::vector<double>>(&option)) {
    out << '[';
    for (std::size_t i = 0; i < list->size(); ++i) out << (i == 0 ? "" : ", ") << (*list)[i];
    out << ']';
  } else if (const auto* chars = std::get_if<std::string>(&option)) {
    out << '"' << *chars << '"';
  } else {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) out << value;
        },
        option);
  }
  return out.str();
}

Option as_kind_of(const Option& wanted, const Option& given) {
  const auto* whole = std::get_if<std::int64_t>(&given);
  const auto* real = std::get_if<double>(&given);
  if (std::holds_alternative<double>(wanted) && whole != nullptr) return static_cast<double>(*whole);
  if (std::holds_alternative<std::vector<double>>(wanted)) {
    if (whole != nullptr) return std::vector<double>{static_cast<double>(*whole)};
    if (real != nullptr) return std::vector<double>{*real};
  }
  return given;
}

bool within(const OptionRange& range, const Option& option) {
  if (const auto* whole = std::get_if<std::int64_t>(&option)) return range.contains(static_cast<double>(*whole));
  if (const auto* real = std::get_if<double>(&option)) return range.contains(*real);
  if (const auto* list = std::get_if<std::vector<double>>(&option))
    return std::ranges::all_of(*list, [&](double each) { return range.contains(each); });
  return true;
}

Result<Option> checked(std::string_view owner, const OptionSpec& spec, const Option& given) {
  const Option value = as_kind_of(spec.value, given);
  if (value.index() != spec.value.index())
    return invalid(owner, ": ", spec.name, " has to be ", kind(spec.value), ", not ", shown(given));
  const auto* wanted = std::get_if<std::vector<double>>(&spec.value);
  if (wanted != nullptr && !wanted->empty() && std::get<std::vector<double>>(value).size() != wanted->size())
    return invalid(owner, ": ", spec.name, " has to be ", wanted->size(), " numbers, not ", shown(given));
  if (!within(spec.range, value))
    return invalid(owner, ": ", spec.name, " has to be ", words(spec.range), ", not ", shown(given));
  return value;
}

const Option& at(const Options& options, std::string_view name) {
  const auto found = options.find(name);
  if (found == options.end()) throw std::logic_error(text("there is no option ", name));
  return found->second;
}

}  // namespace

std::string words(const Option& option) { return shown(option); }

std::string words(const OptionRange& range) {
  const bool bounded = range.most != std::numeric_limits<double>::infinity();
  if (range.least == -std::numeric_limits<double>::infinity())
    return bounded ? text("at most ", range.most) : "a number";
  if (!bounded) return text("at least ", range.least);
  return text("from ", range.least, range.below ? " to below " : " to ", range.most);
}

std::string listed(std::span<const std::string_view> names) {
  std::string line;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) line += i + 1 == names.size() ? " and " : ", ";
    line += names[i];
  }
  return line;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

Result<Options> complete(std::string_view owner, std::span<const OptionSpec> specs, const Options& given) {
  Options all;
  Status wrong;
  for (const OptionSpec& spec : specs) {
    if (spec.need == Need::kOptional) all.emplace(spec.name, spec.value);
    if (spec.need == Need::kRequired && !has(given, spec.name))
      wrong = line_by_line(wrong, invalid(owner, " needs ", spec.name));
  }
  for (const auto& [name, value] : given) {
    const auto spec = std::ranges::find(specs, std::string_view(name), &OptionSpec::name);
    if (spec == specs.end()) {
      std::vector<std::string_view> names;
      for (const OptionSpec& each : specs) names.push_back(each.name);
      wrong = line_by_line(wrong, invalid(owner, " has no option ", name, "; it has ", listed(names)));
      continue;
    }
    Result<Option> option = checked(owner, *spec, value);
    if (option.ok())
      all.insert_or_assign(name, std::move(option).value());
    else
      wrong = line_by_line(wrong, option.status());
  }
  if (!wrong.ok()) return wrong;
  return all;
}

double number(const Options& options, std::string_view name) {
  const Option& option = at(options, name);
  if (const auto* whole = std::get_if<std::int64_t>(&option)) return static_cast<double>(*whole);
  return std::get<double>(option);
}

std::int64_t integer(const Options& options, std::string_view name) {
  return std::get<std::int64_t>(at(options, name));
}

bool flag(const Options& options, std::string_view name) { return std::get<bool>(at(options, name)); }

const std::string& word(const Options& options, std::string_view name) {
  return std::get<std::string>(at(options, name));
}

const std::vector<double>& numbers(const Options& options, std::string_view name) {
  return std::get<std::vector<double>>(at(options, name));
}

bool has(const Options& options, std::string_view name) { return options.contains(name); }

}  // namespace ravnest::optim
