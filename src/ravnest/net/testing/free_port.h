// For tests: ports that nobody else gets. Not part of any library.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/net/held_port.h"

namespace ravnest {

// A port on which nothing listens, on any address. It belongs to this process until that ends.
inline std::uint16_t free_port() {
  static Mutex mutex;
  static std::vector<HeldPort> held;
  const MutexLock lock(mutex);
  auto port = HeldPort::take();
  EXPECT_TRUE(port.ok()) << port.status();
  return held.emplace_back(std::move(port).value()).port();
}

}  // namespace ravnest
