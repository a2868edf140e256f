#include "ravnest/net/port_owner.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListening = "0A";

// The names that the sockets listening there have among a process's descriptors: "socket:[4711]".
std::set<std::string> sockets_at(std::uint16_t port) {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string row;
    std::getline(file, row);
    while (std::getline(file, row)) {
      std::istringstream fields(row);
      std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >> inode;
      const std::size_t colon = local.rfind(':');
      if (state != kListening || colon == std::string::npos) continue;
      unsigned number = 0;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), number, 16);
      if (number == port) sockets.insert(text("socket:[", inode, "]"));
    }
  }
  return sockets;
}

bool has_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (sockets.contains(fs::read_symlink(at->path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

std::string port_owner(std::uint16_t port) {
  const std::set<std::string> sockets = sockets_at(port);
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !sockets.empty() && !error && at != end; at.increment(error)) {
    const std::string process = at->path().filename().string();
    if (!std::ranges::all_of(process, [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (!has_one_of(at->path(), sockets)) continue;
    std::ifstream file(at->path() / "comm");
    std::string program;
    std::getline(file, program);
    return text(printable(program), " (process ", process, ")");
  }
  return "";
}

}  // namespace ravnest
