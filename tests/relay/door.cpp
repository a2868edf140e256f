#include "relay/door.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace ravnest::relay {
namespace {

constexpr int kBacklog = 1024;

std::string reason(int error) { return std::generic_category().message(error); }

std::uint16_t port_of(const Endpoint& endpoint) {
  return ntohs(endpoint.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(endpoint.storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(endpoint.storage).sin_port);
}

// Several sockets may be bound to one port as long as all allow it and none listens yet.
Result<Descriptor> bound(const Endpoint& at) {
  Descriptor socket(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.number(), at.get(), at.size) != 0) return unavailable(reason(errno));
  return socket;
}

}  // namespace

Result<Endpoint> resolve(const Address& address) {
  for (const int family : {AF_INET, AF_UNSPEC}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    if (error == 0) {
      Endpoint endpoint{.size = found->ai_addrlen};
      std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
      return endpoint;
    }
    if (family == AF_UNSPEC) return invalid("the name ", address.host, " cannot be resolved: ", ::gai_strerror(error));
  }
  return internal("unreachable");
}

Result<Door> Door::open(const Address& at) {
  const auto endpoint = resolve(at);
  if (!endpoint.ok()) return endpoint.status();
  Door door;
  door.endpoint_ = *endpoint;
  auto holding = bound(door.endpoint_);
  if (!holding.ok()) return holding.status().with_context(text("cannot listen on ", at));
  door.holding_ = *std::move(holding);
  ::getsockname(door.holding_.number(), reinterpret_cast<sockaddr*>(&door.endpoint_.storage), &door.endpoint_.size);
  door.address_ = {at.host, port_of(door.endpoint_)};
  if (Status opened = door.reopen(); !opened.ok()) return opened;
  return door;
}

Status Door::reopen() {
  auto socket = bound(endpoint_);
  if (!socket.ok()) return socket.status().with_context(text("cannot listen on ", address_));
  if (::listen(socket->number(), kBacklog) != 0) {
    return unavailable("cannot listen on ", address_, ": ", reason(errno));
  }
  listening_ = *std::move(socket);
  return {};
}

Descriptor Door::accept() const {
  for (;;) {
    Descriptor accepted(::accept4(listening_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.is_open() || (errno != EINTR && errno != ECONNABORTED)) return accepted;
  }
}

}  // namespace ravnest::relay
