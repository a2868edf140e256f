// Settings by name, as they come from a TOML file or from keyword arguments in Python, and what they are held against.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::optim {

using Option = std::variant<bool, std::int64_t, double, std::string, std::vector<double>>;
using Options = std::map<std::string, Option, std::less<>>;

// What a number may be. Open at the upper end where `below` is set.
struct OptionRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool below = false;

  bool contains(double number) const { return number >= least && (below ? number < most : number <= most); }
};

enum class Need : std::uint8_t {
  kOptional,  // the value stands for an option that is not given
  kRequired,  // the value only tells the kind
  kAbsent,    // the same; without it the option stays away
};

// One option that something has. The kind of `value` is the kind that is asked for; an integer passes as a number, and
// a single number as a list of one.
struct OptionSpec {
  std::string_view name;
  Option value;
  OptionRange range = {};  // of every number in it
  Need need = Need::kOptional;
};

// The range as people write it: "at least 0", "from 0 to below 1"; "a number" where every one is allowed.
std::string words(const OptionRange& range);

// As people write it: "0.1", "(0.9, 0.999)", "true".
std::string words(const Option& option);

// All options of `owner`: those given, checked, and the others' values. kInvalid, saying what exists, for a name that
// is not there, a value of another kind or out of its range, and a list of another length than a value that is not
// empty: a line for each.
Result<Options> complete(std::string_view owner, std::span<const OptionSpec> specs, const Options& given);

// "a, b and c".
std::string listed(std::span<const std::string_view> names);

// Names are the same in upper and lower case.
bool same_name(std::string_view a, std::string_view b);

// For options that are known to be there, of that kind.
double number(const Options& options, std::string_view name);
std::int64_t integer(const Options& options, std::string_view name);
bool flag(const Options& options, std::string_view name);
const std::string& word(const Options& options, std::string_view name);
const std::vector<double>& numbers(const Options& options, std::string_view name);
bool has(const Options& options, std::string_view name);

}  // namespace ravnest::optim
