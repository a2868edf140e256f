// Strings put together from parts, for messages that people read.
//
// Streams rather than fmt: torch ships one version of fmt and the system's spdlog another, and a header that is
// included beside either must not choose.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace ravnest {

// The parts as `operator<<` prints them, one after the other: text("stage ", 3, " of ", 5) is "stage 3 of 5".
template <class... Ts>
std::string text(const Ts&... parts) {
  std::ostringstream out;
  static_cast<void>((out << ... << parts));
  return std::move(out).str();
}

// The items of a range with `separator` between them; empty for an empty range.
template <class Range>
std::string join(const Range& items, std::string_view separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return std::move(out).str();
}

}  // namespace ravnest
