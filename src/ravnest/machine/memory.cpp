#include "ravnest/machine/memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "ravnest/base/file.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

// The names that one version of control groups gives to its files.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // the line of memory.stat with the file cache that is first to go
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

std::optional<std::uint64_t> number(std::string_view text) {
  const auto start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number behind `key` in a file of lines that start with a key.
std::optional<std::uint64_t> number_of(std::string_view file, std::string_view key) {
  std::istringstream lines{std::string(file)};
  for (std::string line; std::getline(lines, line);) {
    const std::string_view view = line;
    if (view.starts_with(key) && view.size() > key.size() && view[key.size()] == ' ') {
      return number(view.substr(key.size()));
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  const auto content = read_file(path);
  return content.ok() ? number(*content) : std::nullopt;
}

// Takes over the least that `folder` or a folder above it, up to `top`, leaves.
void apply_groups(const fs::path& top, const fs::path& group, const GroupFiles& files, UsableMemory& memory) {
  for (fs::path below = group;; below = below.parent_path()) {
    const fs::path folder = top / below;
    const auto limit = number_in(folder / files.limit);
    const auto usage = number_in(folder / files.usage);
    if (limit && usage) {
      const auto stat = read_file(folder / "memory.stat");
      const std::uint64_t cache = stat.ok() ? number_of(*stat, files.cache).value_or(0) : 0;
      const std::uint64_t used = *usage - std::min(*usage, cache);
      const std::uint64_t left = *limit - std::min(*limit, used);
      if (left < memory.bytes) {
        memory.bytes = left;
        memory.limited_by =
            text("the control group's limit of ", *limit, " bytes in ", (folder / files.limit).string());
      }
    }
    if (below.empty()) return;
  }
}

}  // namespace

Result<UsableMemory> usable_memory(const fs::path& root) {
  const fs::path meminfo_path = root / "proc/meminfo";
  const auto meminfo = read_file(meminfo_path);
  if (!meminfo.ok()) return meminfo.status();
  const auto available_kib = number_of(*meminfo, "MemAvailable:");
  const auto total_kib = number_of(*meminfo, "MemTotal:");
  if (!available_kib || !total_kib) {
    return corrupt(meminfo_path.string(), " has no lines MemTotal and MemAvailable with a number");
  }
  UsableMemory memory{*available_kib * 1024, *total_kib * 1024, "free memory"};

  const auto groups = read_file(root / "proc/self/cgroup");
  if (!groups.ok()) return memory;
  const fs::path mounted = root / "sys/fs/cgroup";
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {  // HIERARCHY:CONTROLLERS:/GROUP
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    if (controllers == ",,") {
      apply_groups(mounted, group, kVersion2, memory);
      apply_groups(mounted / "unified", group, kVersion2, memory);
    } else if (controllers.find(",memory,") != std::string::npos) {
      apply_groups(mounted / "memory", group, kVersion1, memory);
    }
  }
  return memory;
}

}  // namespace ravnest
