// The host memory that a process on this machine may use from now on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ravnest/base/status.h"

namespace ravnest {

struct UsableMemory {
  std::uint64_t bytes = 0;        // what may still be taken without swapping and without being killed
  std::uint64_t total_bytes = 0;  // what the machine has
  std::string limited_by;         // in words: "free memory", or the control group and its limit file
};

// The kernel's MemAvailable, or what the limits of this process's control group and of those above it (version 1 and
// 2) leave, where that is less; memory that the group's file cache could give back counts as free. `root` is the folder
// that holds `proc` and `sys`. kNotFound or kCorrupt where /proc/meminfo cannot be made sense of; a control group that
// cannot be read is passed over, as on machines that have none.
Result<UsableMemory> usable_memory(const std::filesystem::path& root = "/");

}  // namespace ravnest
