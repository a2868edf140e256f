#include "ravnest/base/words/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "ravnest/base/text.h"

namespace ravnest {
namespace {

// Three digits: "1.25", "12.5", "125".
std::string three_digits(double value) {
  std::ostringstream out;
  const double size = std::abs(value);
  out << std::fixed << std::setprecision(size < 9.995 ? 2 : size < 99.95 ? 1 : 0) << value;
  return out.str();
}

struct Scaled {
  std::string digits;
  std::string_view prefix;
};

Scaled scale(double value) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const bool whole = prefix == 0 && value == std::floor(value);
  return {whole ? text(static_cast<long>(value)) : three_digits(value), kPrefixes[prefix]};
}

// "1 h 02 min": the smaller part always has two digits, so that a line that is rewritten does not jump.
std::string parts(long larger, std::string_view larger_unit, long smaller, std::string_view smaller_unit) {
  return text(larger, " ", larger_unit, smaller < 10 ? " 0" : " ", smaller, " ", smaller_unit);
}

}  // namespace

std::string megabytes(double bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << std::ceil(bytes / 1e6) << " MB";
  return out.str();
}

std::string quantity(double value, std::string_view unit) {
  const Scaled scaled = scale(value);
  const std::string suffix = text(scaled.prefix, unit);
  return suffix.empty() ? scaled.digits : text(scaled.digits, " ", suffix);
}

std::string compact(double value) {
  const Scaled scaled = scale(value);
  return text(scaled.digits, scaled.prefix);
}

std::string duration(double seconds) {
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

std::string clock_time(double seconds) {
  constexpr double kMost = 1e6 * 24 * 3600;
  if (!(seconds < kMost)) return "very long";
  const long whole = std::lround(std::max(0.0, seconds));
  if (whole < 60) return text(whole, " s");
  if (whole < 3600) return parts(whole / 60, "min", whole % 60, "s");
  const long minutes = (whole + 30) / 60;
  if (minutes < 48L * 60) return parts(minutes / 60, "h", minutes % 60, "min");
  const long hours = (minutes + 30) / 60;
  return parts(hours / 24, "days", hours % 24, "h");
}

}  // namespace ravnest
