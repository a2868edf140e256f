// Names of hosts, looked up for no longer than one is willing to wait, and the addresses of this machine itself.
//
// Safe from any thread. The system's own lookup cannot be cut short: it goes on in a thread of its own, whose answer
// nobody reads.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/socket.h"

namespace ravnest {

struct HostAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  // As a number, without the port: "10.0.0.7", "fe80::1%eth0".
  std::string host() const;
  // Whether it stands for every address of a machine: 0.0.0.0 or ::.
  bool is_any() const;
  // Whether it never leaves the machine: 127.0.0.0/8 or ::1.
  bool is_loopback() const;
};

enum class Lookup : unsigned char { kToConnect, kToListen };

// At least one. kInvalid where there is no such name, kUnavailable where the name service fails for now or does not
// answer before the deadline, kCancelled where asked to stop.
Result<std::vector<HostAddress>> resolve(const std::string& host, std::uint16_t port, Lookup lookup, const Wait& wait);

// The addresses of this machine's own interfaces, as HostAddress::host writes them.
std::vector<std::string> own_addresses();

// The number of the interface by which this machine reaches the address; empty where there is no way. Sends nothing.
std::string own_address_towards(const HostAddress& address);

// Whether the address is this machine's own: of an interface, of loopback, or the one for all of them.
bool is_here(const HostAddress& address);

}  // namespace ravnest
