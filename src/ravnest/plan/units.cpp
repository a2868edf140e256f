#include "ravnest/plan/units.h"

#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "ravnest/base/text.h"

namespace ravnest::plan {
namespace {

// Three digits: "1.25", "12.5", "125".
std::string three_digits(double value) {
  std::ostringstream out;
  const double size = std::abs(value);
  out << std::fixed << std::setprecision(size < 9.995 ? 2 : size < 99.95 ? 1 : 0) << value;
  return out.str();
}

}  // namespace

std::string megabytes(double bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << std::ceil(bytes / 1e6) << " MB";
  return out.str();
}

std::string quantity(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const bool whole = prefix == 0 && value == std::floor(value);
  const std::string digits = whole ? text(static_cast<long>(value)) : three_digits(value);
  const std::string suffix = text(kPrefixes[prefix], unit);
  return suffix.empty() ? digits : text(digits, " ", suffix);
}

std::string duration(double seconds) {
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

}  // namespace ravnest::plan
