// What numbers on the command line may be, and messages that say so as people write it.
#pragma once

#include <CLI/CLI.hpp>
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

}  // namespace ravnest::cli
