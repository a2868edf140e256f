// Where a machine is reached: a host and a port, as people write them.
#pragma once

#include <compare>
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

  friend auto operator<=>(const Address&, const Address&) = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

// As `parse_address` reads it: "node-3:8080", "[::1]:8080".
std::ostream& operator<<(std::ostream& out, const Address& address);
std::string to_string(const Address& address);

// kInvalid unless `written` is HOST:PORT with a port from 1 to 65535, and an IPv6 host in brackets. Resolves nothing.
// What it lets pass can be part of a file's name.
Result<Address> parse_address(std::string_view written);

// The address that others on the same machine dial: the loopback address where the host means "everywhere".
Address dialled(const Address& address);

}  // namespace ravnest
