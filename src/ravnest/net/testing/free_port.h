// For tests: ports that nobody else gets. Not part of any library.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "ravnest/net/socket.h"

namespace ravnest {

// A port on which nothing listens, on any address. It belongs to this process until that ends: a bound socket that does
// not listen keeps the system from giving it to others, and lets those listen who ask for that very port, as often as
// they like.
inline std::uint16_t free_port() {
  static std::mutex mutex;
  static std::vector<Socket> held;
  const std::lock_guard lock(mutex);
  const Socket& socket = held.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* bound = reinterpret_cast<sockaddr*>(&address);
  // Allowed only after it is bound, or two processes that hold ports could get the same one.
  const int on = 1;
  const bool done = ::bind(socket.descriptor(), bound, size) == 0 &&
                    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    ::getsockname(socket.descriptor(), bound, &size) == 0;
  EXPECT_TRUE(done) << "no free port was found";
  return ntohs(address.sin_port);
}

}  // namespace ravnest
