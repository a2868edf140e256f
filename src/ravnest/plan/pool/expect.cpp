#include "ravnest/plan/pool/expect.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/printable.h"

namespace ravnest::plan {
namespace {

std::string in_brackets(std::string_view unit) { return unit.empty() ? "" : text(" (", unit, ")"); }

}  // namespace

void refuse(const Field& field, std::string_view expected) {
  std::string found = printable(field.json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (found.size() > 60) found = found.substr(0, 57) + "...";
  throw DecodeError{invalid(field.where(), ": expected ", expected, ", got ", found)};
}

void expect_object(const Field& field, std::string_view expected) {
  if (!field.json().is_object()) refuse(field, expected);
}

Field expect_member(const Field& field, std::string_view key, std::string_view expected) {
  if (!field.json().contains(key)) throw DecodeError{invalid(field.where(), ": no \"", key, "\"; expected ", expected)};
  return field[key];
}

double expect_number(const Field& field, const NumberRange& range) {
  const double value = field.json().is_number() ? field.json().get<double>() : NAN;
  if (range.has(value)) return value;
  // Who wrote -3 or "8" is told what is meant, without digits that nobody needs.
  if (range.least > 0 && !(value > 0)) refuse(field, text("a positive number", in_brackets(range.unit)));
  if (range.least == 0 && !(value >= 0)) refuse(field, text("a number that is not negative", in_brackets(range.unit)));
  refuse(field, text("a number ", words(range)));
}

std::int64_t expect_whole(const Field& field, std::int64_t least, std::int64_t most) {
  const bool whole = field.json().is_number_integer() &&
                     (!field.json().is_number_unsigned() || field.json().get<std::uint64_t>() <= INT64_MAX);
  const std::int64_t value = whole ? field.json().get<std::int64_t>() : 0;
  if (!whole || value < least || value > most) refuse(field, text("a whole number from ", least, " to ", most));
  return value;
}

void expect_only(const Field& field, std::initializer_list<std::string_view> known) {
  field.for_each_member([&](const std::string& key, const Field& value) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw DecodeError{invalid(printable(value.where()), " is not a known key; expected ", join(known))};
  });
}

}  // namespace ravnest::plan
