// The environment of this process, for functions that take one.
#pragma once

#include <unistd.h>

#include <string_view>

#include "ravnest/strategy/place/place.h"

namespace ravnest::cli {

inline strategy::Environment own_environment() {
  strategy::Environment variables;
  for (char** each = ::environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::size_t end = variable.find('=');
    if (end != std::string_view::npos) variables.emplace(variable.substr(0, end), variable.substr(end + 1));
  }
  return variables;
}

}  // namespace ravnest::cli
