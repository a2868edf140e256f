// For tests: how much memory a process has.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace ravnest::transport {

// Resident memory in bytes; 0 where the process is not there.
inline std::uint64_t resident_bytes(const std::string& process = "self") {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    std::uint64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}

}  // namespace ravnest::transport
