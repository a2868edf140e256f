#include "relay/connection.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ravnest::relay {
namespace {

// How long a reset waits for bytes before it that a slow reader leaves in the kernel.
constexpr Duration kSettle = std::chrono::seconds(1);

void set_option(const Side& side, int level, int name, int value) {
  ::setsockopt(side.socket.number(), level, name, &value, sizeof value);
}

void size_lane(const Wire& wire, const Side& from, const Side& to) {
  set_option(from, SOL_SOCKET, SO_RCVBUF, wire.kernel_bytes());
  set_option(to, SOL_SOCKET, SO_SNDBUF, wire.kernel_bytes());
}

void reset_side(Side& side) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (side.socket.is_open()) ::setsockopt(side.socket.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  side.socket = Descriptor();
}

bool is_acknowledged(const Side& side) {
  int waiting = 0;
  return side.broken || !side.socket.is_open() || ::ioctl(side.socket.number(), SIOCOUTQ, &waiting) != 0 ||
         waiting == 0;
}

}  // namespace

Connection::Connection(std::uint64_t connection_id, Descriptor client, Wire& up, Wire& down, std::uint64_t may_deliver)
    : id(connection_id),
      left(may_deliver),
      up_(up),
      down_(down),
      client_{.socket = std::move(client)},
      lanes_{Lane(client_, server_, up), Lane(server_, client_, down)} {
  set_option(client_, IPPROTO_TCP, TCP_NODELAY, 1);
  size_buffers();
}

void Connection::dial(const Endpoint& server) {
  server_.socket = Descriptor(::socket(server.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  set_option(server_, IPPROTO_TCP, TCP_NODELAY, 1);
  size_buffers();
  if (::connect(server_.socket.number(), server.get(), server.size) != 0 && errno != EINPROGRESS) {
    server_.broken = server_.readable = true;
  }
}

void Connection::size_buffers() {
  size_lane(up_, client_, server_);
  size_lane(down_, server_, client_);
}

void Connection::reset() {
  reset_side(client_);
  reset_side(server_);
}

void Connection::begin_reset(TimePoint now) {
  if (!reset_by_) reset_by_ = now + kSettle;
}

bool Connection::is_settled(TimePoint now) const {
  if (now >= *reset_by_) return true;
  const bool is_behind = lanes_[kUp].is_behind(now) || lanes_[kDown].is_behind(now);
  return (left == 0 || !is_behind) && is_acknowledged(client_) && is_acknowledged(server_);
}

}  // namespace ravnest::relay
