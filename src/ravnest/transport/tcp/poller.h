// Which descriptors are ready, by epoll: each has a number that its owner gave it.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ravnest/base/descriptor.h"

namespace ravnest::transport::tcp {

// One thread waits; `watch` may be called from any. A descriptor that is closed is forgotten by itself.
class Poller {
 public:
  Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  void add(int descriptor, std::uint64_t token) { control(EPOLL_CTL_ADD, descriptor, token, EPOLLIN); }
  // For reading always, for writing if asked for.
  void watch(int descriptor, std::uint64_t token, bool write) {
    control(EPOLL_CTL_MOD, descriptor, token, write ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  void remove(int descriptor) { control(EPOLL_CTL_DEL, descriptor, 0, 0); }

  // The tokens that are ready, after `timeout_ms` at the latest.
  std::vector<std::uint64_t> wait(int timeout_ms) {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), timeout_ms);
    std::vector<std::uint64_t> ready;
    for (int i = 0; i < count; ++i) {
      // Copied first: the kernel's struct is packed, and no reference may be bound to a member of it.
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
      ready.push_back(token);
    }
    return ready;
  }

 private:
  void control(int operation, int descriptor, std::uint64_t token, std::uint32_t wanted) {
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = token;
    ::epoll_ctl(epoll_.number(), operation, descriptor, &event);
  }

  Descriptor epoll_;
};

}  // namespace ravnest::transport::tcp
