#include "ravnest/strategy/place/variables.h"

#include <charconv>
#include <system_error>
#include <vector>

#include "ravnest/base/text.h"

namespace ravnest::strategy {

bool Variables::has(const std::string& name) const {
  const auto found = all_.find(name);
  return found != all_.end() && !found->second.empty();
}

Result<int> Variables::number(const std::string& name, int least, int most) const {
  const std::string written = text_of(name);
  int value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size() || value < least || value > most)
    return invalid(name, " must be a whole number from ", least, " to ", most, ", not \"", written, "\"");
  return value;
}

Status Variables::all_of(std::string_view launcher, std::initializer_list<const char*> names) const {
  std::vector<std::string> missing;
  std::vector<std::string> present;
  for (const char* name : names) (has(name) ? present : missing).emplace_back(name);
  if (missing.empty()) return {};
  return invalid(launcher, " has set ", join(present), ", and not ", join(missing), ": start all ranks by ", launcher,
                 ", or unset what it left");
}

}  // namespace ravnest::strategy
