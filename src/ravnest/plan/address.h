// "host:port", as the pool file and the node files write it; IPv6 in brackets, "[::1]:8080".
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::plan {

struct Address {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  bool operator==(const Address&) const = default;
  auto operator<=>(const Address&) const = default;
};

std::string to_string(const Address& address);
inline std::ostream& operator<<(std::ostream& out, const Address& address) { return out << to_string(address); }

// kInvalid, with what was expected, where it is not a host and a port from 1 to 65535. A host is a name, an IPv4 or a
// bracketed IPv6 address; whether it resolves is not asked. Nothing that could not be part of a file's name passes.
Result<Address> parse_address(std::string_view written);

// The address that others on the same machine dial: the loopback address where the host means "everywhere".
Address dialled(const Address& address);

}  // namespace ravnest::plan
