// Where a machine is reached: a host and a port, as people write them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest {

// `host` is a name or a number, an IPv6 number without its brackets.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// As `parse_address` reads it: "node-3:8080", "[::1]:8080".
std::ostream& operator<<(std::ostream& out, const Address& address);

// kInvalid unless `text` is HOST:PORT with a port from 1 to 65535, and an IPv6 host in brackets. Resolves nothing.
Result<Address> parse_address(std::string_view text);

}  // namespace ravnest
