#include "ravnest/plan/pool/range.h"

#include <array>
#include <charconv>

namespace ravnest::plan {
namespace {

// As people write it: "0.000001", "1000000000".
std::string plain(double value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

}  // namespace

std::string words(const NumberRange& range) {
  return text("from ", plain(range.least), " to ", plain(range.most), range.unit.empty() ? "" : " ", range.unit);
}

Status expect_within(const NumberRange& range, std::string_view what, double value) {
  if (range.has(value)) return {};
  return invalid(what, " must be ", words(range), ", not ", value);
}

}  // namespace ravnest::plan
