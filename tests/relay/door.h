// The port at which clients knock, and which can be closed for a while without being lost to another process.
//
// While closed, connecting is refused, as on a machine whose server has died. One thread at a time.
#pragma once

#include <sys/socket.h>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"
#include "ravnest/net/address.h"

namespace ravnest::relay {

// An address as the system's calls take it.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// The first address of a name, an IPv4 one where it has any. May ask the network.
Result<Endpoint> resolve(const Address& address);

class Door {
 public:
  // Port 0 takes a free one.
  static Result<Door> open(const Address& at);

  const Address& address() const { return address_; }
  // Readable when someone knocks; -1 while closed.
  int descriptor() const { return listening_.number(); }

  // The next connection, not blocking; not open where no one is there (EAGAIN in errno) or accepting failed.
  Descriptor accept() const;
  // Who has knocked and was not let in is reset.
  void close() { listening_ = Descriptor(); }
  Status reopen();

 private:
  Door() = default;

  Address address_;
  Endpoint endpoint_;
  Descriptor holding_;  // bound to the port but never listening: it keeps the port while the door is closed
  Descriptor listening_;
};

}  // namespace ravnest::relay
