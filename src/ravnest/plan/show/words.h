// Words that more than one of a plan's pictures and tables use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ravnest/base/text.h"

namespace ravnest::plan {

// "1 node", "3 nodes".
inline std::string count(std::size_t number, std::string_view one) {
  return text(number, " ", one, number == 1 ? "" : "s");
}

}  // namespace ravnest::plan
