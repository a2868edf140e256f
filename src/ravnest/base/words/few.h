// Lists in a sentence, which may be long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "ravnest/base/text.h"

namespace ravnest {

// At most eight of them, and how many more there are: `all` where the names are but the first of a longer list.
inline std::string few(const std::vector<std::string>& names, std::size_t all) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 8);
  const std::string listed = join(std::vector<std::string>(names.begin(), names.begin() + static_cast<long>(shown)));
  return all > shown ? text(listed, " and ", all - shown, " more") : listed;
}
inline std::string few(const std::vector<std::string>& names) { return few(names, names.size()); }

}  // namespace ravnest
