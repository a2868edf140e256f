#include "ravnest/net/resolve.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "ravnest/net/background_tasks.h"

namespace ravnest {
namespace {

struct Answer {
  int error = EAI_AGAIN;
  std::vector<HostAddress> addresses;
};

Answer ask(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  Answer answer;
  answer.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (answer.error != 0) return answer;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    HostAddress& address = answer.addresses.emplace_back();
    address.size = std::min<socklen_t>(at->ai_addrlen, sizeof address.storage);
    std::memcpy(&address.storage, at->ai_addr, address.size);
  }
  return answer;
}

Result<Answer> ask_in_a_thread(const std::string& host, std::uint16_t port, int flags, const Wait& wait) {
  BackgroundTasks<Answer> tasks;
  if (Status started = tasks.start([host, port, flags](int) { return ask(host, port, flags); }); !started.ok())
    return started.with_context(text("the name ", host, " cannot be resolved"));
  const Status came = wait_for(tasks.ready(), POLLIN, wait);
  if (came.code() == Code::kDeadline)
    return unavailable("the name ", host, " cannot be resolved for now: the name service does not answer in time");
  if (!came.ok()) return came;
  return std::move(tasks.take().front());
}

// An IPv4 address may come as one of IPv6.
const in_addr* as_ipv4(const HostAddress& address) {
  if (address.family() == AF_INET) return &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr;
  const in6_addr& wide = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
  if (address.family() == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&wide))
    return reinterpret_cast<const in_addr*>(&wide.s6_addr[12]);
  return nullptr;
}

}  // namespace

std::string HostAddress::host() const {
  std::array<char, NI_MAXHOST> written{};
  if (::getnameinfo(raw(), size, written.data(), written.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "unknown";
  return written.data();
}

bool HostAddress::is_any() const {
  if (const in_addr* narrow = as_ipv4(*this)) return narrow->s_addr == htonl(INADDR_ANY);
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

bool HostAddress::is_loopback() const {
  if (const in_addr* narrow = as_ipv4(*this)) return ntohl(narrow->s_addr) >> 24 == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

Result<std::vector<HostAddress>> resolve(const std::string& host, std::uint16_t port, Lookup lookup, const Wait& wait) {
  const int flags = lookup == Lookup::kToListen ? AI_PASSIVE : 0;
  // Numbers need no name service, and so no thread.
  Answer answer = ask(host, port, flags | AI_NUMERICHOST);
  if (answer.error == EAI_NONAME) {
    auto asked = ask_in_a_thread(host, port, flags, wait);
    if (!asked.ok()) return asked.status();
    answer = std::move(asked).value();
  }
  if (answer.error == EAI_AGAIN)
    return unavailable("the name ", host, " cannot be resolved for now: ", ::gai_strerror(answer.error));
  if (answer.error != 0) return invalid("the name ", host, " cannot be resolved: ", ::gai_strerror(answer.error));
  return std::move(answer.addresses);
}

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<std::string> written;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
      continue;
    HostAddress address;
    address.size = at->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, at->ifa_addr, address.size);
    written.push_back(address.host());
  }
  return written;
}

std::string own_address_towards(const HostAddress& address) {
  // To connect a datagram socket is to choose a route, and no more.
  const Socket socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  HostAddress own;
  own.size = sizeof own.storage;
  if (::connect(socket.descriptor(), address.raw(), address.size) != 0 ||
      ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0)
    return "";
  return own.host();
}

bool is_here(const HostAddress& address) {
  if (address.is_any() || address.is_loopback()) return true;
  const std::vector<std::string> own = own_addresses();
  return std::ranges::find(own, address.host()) != own.end();
}

}  // namespace ravnest
