// For tests: how much memory a process has.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace ravnest::transport {

// What /proc says of a process, in bytes; 0 where the process is not there.
inline std::uint64_t status_bytes(const std::string& process, const std::string& field) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string word; status >> word;) {
    if (word != field + ":") continue;
    std::uint64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}

inline std::uint64_t resident_bytes(const std::string& process = "self") { return status_bytes(process, "VmRSS"); }

// Its address space, used or not.
inline std::uint64_t mapped_bytes(const std::string& process = "self") { return status_bytes(process, "VmSize"); }

}  // namespace ravnest::transport
