#include "ravnest/strategy/place/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace ravnest::strategy {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

// Entries of the folder whose names are `prefix` and what `has_rest` takes; 0 where there is no such folder.
int entries(const std::filesystem::path& folder, std::string_view prefix, bool (*has_rest)(std::string_view)) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename();
    if (name.starts_with(prefix) && has_rest(std::string_view(name).substr(prefix.size()))) ++count;
  }
  return count;
}

int devices_of_the_driver(const DriverFiles& files) {
  const int devices = entries(files.devices, "nvidia", is_number);
  return devices > 0 ? devices : entries(files.gpus, "", [](std::string_view) { return true; });
}

std::string_view trimmed(std::string_view word) {
  const std::size_t begin = std::min(word.find_first_not_of(" \t"), word.size());
  return word.substr(begin, word.find_last_not_of(" \t") + 1 - begin);
}

// A number below `devices`, or an identity such as GPU-00cea8c8 or MIG-..., which only the driver could tell from
// others.
bool is_device(std::string_view entry, int devices) {
  if (!is_number(entry)) return entry.starts_with("GPU-") || entry.starts_with("MIG-");
  int number = 0;
  const auto read = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  return read.ec == std::errc() && number < devices;
}

}  // namespace

int visible_devices(const Environment& environment, const DriverFiles& files) {
  const int devices = devices_of_the_driver(files);
  const auto listed = environment.find("CUDA_VISIBLE_DEVICES");
  if (devices == 0 || listed == environment.end()) return devices;
  std::set<std::string_view> visible;
  std::string_view rest = listed->second;
  while (!rest.empty()) {
    const std::string_view entry = trimmed(rest.substr(0, rest.find(',')));
    if (!is_device(entry, devices)) break;
    if (!visible.insert(entry).second) return 0;
    rest.remove_prefix(std::min(rest.find(','), rest.size() - 1) + 1);
  }
  return static_cast<int>(visible.size());
}

}  // namespace ravnest::strategy
