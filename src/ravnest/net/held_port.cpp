#include "ravnest/net/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ravnest {

Result<HeldPort> HeldPort::take() {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* bound = reinterpret_cast<sockaddr*>(&address);
  // A bound socket that does not listen is what holds a port. Sharing it is allowed only after it is bound, or two
  // processes that hold ports could get the same one.
  const int on = 1;
  if (!socket.is_open() || ::bind(socket.number(), bound, size) != 0 ||
      ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::getsockname(socket.number(), bound, &size) != 0)
    return unavailable("no free port was found: ", std::strerror(errno));
  return HeldPort(std::move(socket), ntohs(address.sin_port));
}

}  // namespace ravnest
