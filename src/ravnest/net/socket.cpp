#include "ravnest/net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include "ravnest/net/resolve.h"

namespace ravnest {
namespace {

constexpr int kUnsentBytes = 256 << 10;
constexpr int kBacklog = 128;
constexpr Duration kLookupTime = std::chrono::seconds(10);

std::string reason(int error) { return std::generic_category().message(error); }

// Small messages go out at once; of a stream, little waits inside the kernel, so that a slow link does not keep on
// sending long after the stream's time is over.
void set_options(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
}

Status connect_one(const Socket& socket, const HostAddress& to, const Wait& wait, int& error) {
  error = ::connect(socket.descriptor(), to.raw(), to.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    error = 0;
    if (Status ready = wait_for(socket.descriptor(), POLLOUT, wait); !ready.ok()) return ready;
    socklen_t size = sizeof error;
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return error == 0 ? Status() : unavailable(reason(error));
}

int open_socket(int family) { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

Status bind_and_listen(int descriptor, const sockaddr* address, socklen_t size) {
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(descriptor, address, size) == 0 && ::listen(descriptor, kBacklog) == 0) return {};
  return errno == EADDRNOTAVAIL || errno == EACCES ? invalid(reason(errno)) : unavailable(reason(errno));
}

// Every address of the machine: one IPv6 socket takes IPv4 too; where there is no IPv6, IPv4 alone.
Result<Socket> listen_everywhere(std::uint16_t port) {
  if (Socket both(open_socket(AF_INET6)); both.descriptor() >= 0) {
    const int off = 0;
    ::setsockopt(both.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    const Status bound = bind_and_listen(both.descriptor(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    if (bound.ok()) return both;
    if (bound.code() == Code::kUnavailable) return bound;
  }
  Socket plain(open_socket(AF_INET));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  const Status bound = bind_and_listen(plain.descriptor(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
  return bound.ok() ? Result<Socket>(std::move(plain)) : Result<Socket>(bound);
}

Result<Socket> listen_at(const std::string& host, std::uint16_t port) {
  const auto found = resolve(host, port, Lookup::kToListen, Wait::of(kLookupTime));
  if (!found.ok()) return found.status();
  Status last = invalid("no address");
  for (const HostAddress& address : *found) {
    Socket socket(open_socket(address.family()));
    last = socket.descriptor() < 0 ? unavailable(reason(errno))
                                   : bind_and_listen(socket.descriptor(), address.raw(), address.size);
    if (last.ok()) return socket;
  }
  return last;
}

std::string written(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return text(Address{host.data(), static_cast<std::uint16_t>(std::stoi(port.data()))});
}

}  // namespace

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status wait_for(int descriptor, short events, const Wait& wait) {
  std::array<pollfd, 2> watched{{{descriptor, events, 0}, {wait.stop, POLLIN, 0}}};  // poll passes over -1
  for (;;) {
    const auto left = std::max(wait.deadline - SystemClock().now(), Duration::zero());
    const timespec timeout{static_cast<std::time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    const int ready = ::ppoll(watched.data(), watched.size(), &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return unavailable("poll failed: ", reason(errno));
    if (watched[1].revents != 0) return cancelled("asked to stop");
    if (watched[0].revents != 0) return {};
    if (ready == 0) return deadline("no answer in time");
  }
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Socket> Socket::connect(const Address& to, const Wait& wait, int* system_error) {
  int error = 0;
  const auto found = resolve(to.host, to.port, Lookup::kToConnect, wait);
  if (!found.ok()) return found.status();
  Status last = unavailable("no address");
  for (const HostAddress& address : *found) {
    Socket socket(open_socket(address.family()));
    error = errno;
    last = socket.descriptor() < 0 ? unavailable(reason(error)) : connect_one(socket, address, wait, error);
    if (system_error != nullptr) *system_error = error;
    if (last.ok()) {
      set_options(socket.descriptor());
      return socket;
    }
    if (last.code() != Code::kUnavailable) break;
  }
  return last.with_context(text("cannot connect to ", to));
}

Result<std::size_t> Socket::send_some(ByteSpan bytes, const Wait& wait) {
  for (;;) {
    // Always by way of poll, which says no while much is unsent; send itself would take more.
    if (Status ready = wait_for(descriptor_, POLLOUT, wait); !ready.ok()) return ready;
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (!would_block(errno)) return unavailable("the connection broke off: ", reason(errno));
  }
}

Status Socket::send(ByteSpan bytes, const Wait& wait) {
  while (!bytes.empty()) {
    const auto count = send_some(bytes, wait);
    if (!count.ok()) return count.status();
    bytes = bytes.subspan(*count);
  }
  return {};
}

Result<std::size_t> Socket::receive_some(std::span<std::byte> into, const Wait& wait) {
  for (;;) {
    if (Status ready = wait_for(descriptor_, POLLIN, wait); !ready.ok()) return ready;
    const ssize_t count = ::recv(descriptor_, into.data(), into.size(), 0);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (!would_block(errno)) return unavailable("the connection broke off: ", reason(errno));
  }
}

Status Socket::receive(std::span<std::byte> into, const Wait& wait) {
  while (!into.empty()) {
    const auto count = receive_some(into, wait);
    if (!count.ok()) return count.status();
    if (*count == 0) return unavailable("the other side closed the connection");
    into = into.subspan(*count);
  }
  return {};
}

std::string Socket::peer() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "unknown";
  return written(reinterpret_cast<const sockaddr*>(&address), size);
}

std::string Socket::peer_host() const {
  HostAddress address;
  address.size = sizeof address.storage;
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return "unknown";
  constexpr std::string_view kMapped = "::ffff:";
  const std::string host = address.host();
  return host.starts_with(kMapped) && host.find('.') != std::string::npos ? host.substr(kMapped.size()) : host;
}

Result<Listener> Listener::open(const std::string& host, std::uint16_t port) {
  auto socket = host.empty() ? listen_everywhere(port) : listen_at(host, port);
  if (!socket.ok()) {
    return socket.status().with_context(text("cannot listen on ", host.empty() ? "port" : host, " ", port));
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket->descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto network_port = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                          : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return Listener(*std::move(socket), ntohs(network_port));
}

Result<Socket> Listener::accept(const Wait& wait) {
  for (;;) {
    if (Status ready = wait_for(socket_.descriptor(), POLLIN, wait); !ready.ok()) return ready;
    Socket accepted(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.descriptor() >= 0) {
      set_options(accepted.descriptor());
      return accepted;
    }
    const bool passes = errno == ECONNABORTED || errno == EPROTO || would_block(errno);
    if (!passes) return unavailable("cannot accept a connection: ", reason(errno));
  }
}

}  // namespace ravnest
