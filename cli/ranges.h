// What numbers on the command line may be, and messages that say so as people write it.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>

#include "ravnest/base/text.h"

namespace ravnest::cli {

// A validator for an option that is a number; `wanted` reads on after "has to be": "at least 1".
inline CLI::Validator number_that(const std::string& wanted, std::string shown,
                                  bool (*is_allowed)(double, double, double), double least, double most) {
  return CLI::Validator(
      [=](const std::string& written) {
        double number = 0;
        if (!CLI::detail::lexical_cast(written, number)) return text("has to be a number, not ", written);
        return is_allowed(number, least, most) ? std::string() : text("has to be ", wanted, ", not ", written);
      },
      std::move(shown));
}

inline CLI::Validator at_least(double least) {
  return number_that(
      text("at least ", least), text(">= ", least), [](double number, double from, double) { return number >= from; },
      least, 0);
}

inline CLI::Validator above(double limit) {
  return number_that(
      text("more than ", limit), text("> ", limit), [](double number, double from, double) { return number > from; },
      limit, 0);
}

inline CLI::Validator between(double least, double most) {
  return number_that(
      text("from ", least, " to ", most), text(least, " to ", most),
      [](double number, double from, double to) { return number >= from && number <= to; }, least, most);
}

// For an option of type T, a whole number. What T cannot hold has a sentence of ours, too, instead of CLI11's.
template <std::integral T>
CLI::Validator whole(T least, T most = std::numeric_limits<T>::max()) {
  const bool bounded = most < std::numeric_limits<T>::max();
  const std::string range = text("from ", least, " to ", most);
  return CLI::Validator(
      [=](const std::string& written) -> std::string {
        const std::string but = ", not " + written;
        double number = 0;
        if (!CLI::detail::lexical_cast(written, number)) return "has to be a number" + but;
        T exact = 0;
        const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), exact);
        const bool whole = end == written.data() + written.size() && error == std::errc();
        if (whole && exact >= least && exact <= most) return {};
        if (std::floor(number) != number ||
            (!whole && number >= static_cast<double>(least) && number <= static_cast<double>(most)))
          return "has to be a whole number" + but;
        if (number < static_cast<double>(least) && !bounded) return text("has to be at least ", least, but);
        return text("has to be ", range, but);
      },
      bounded ? text(least, " to ", most) : text(">= ", least));
}

}  // namespace ravnest::cli
