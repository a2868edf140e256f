// A TCP relay in user space: a network of a known rate, delay and reliability between clients and one server.
//
// For tests and benchmarks. One thread of its own carries all connections, many hundreds of them. What it holds is
// bounded: a receiver that does not read makes the sender wait. The end of a stream is passed on as such, each
// direction on its own, and a reset as a reset, both after the delay and behind the bytes before them.
//
// It cannot lose or reorder packets: TCP hides that from programs, which see only delay, rate and lost connections.
// The handshake with the relay is not delayed: a client's connect returns at once, even where the server is down.
//
// All functions may be called from any thread; each returns when what it says has been done.
#pragma once

#include <memory>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "relay/profile.h"
#include "relay/statistics.h"

namespace ravnest::relay {

class Loop;

// Move-only.
class Relay {
 public:
  // Listens on `listen` (port 0: a free one). The server need not be there yet; its name is resolved only here.
  // kInvalid for a profile or a name that cannot be, kUnavailable where the port is taken.
  static Result<Relay> open(const Address& listen, const Address& server, const Profile& profile = {});
  Relay(Relay&& other) noexcept;
  Relay& operator=(Relay&& other) noexcept;
  // Resets all connections.
  ~Relay();

  // What clients dial.
  Address address() const;

  // Resets all connections, also those that are still being accepted. New ones are carried as before.
  void cut();
  // While refusing, new connections are refused as by a host whose server has died. Those that are there go on.
  // kUnavailable where the port cannot be listened on again.
  Status set_refusing(bool refusing);
  // While silent, connections are kept and accepted, but nothing comes through in either direction, neither bytes nor
  // ends nor resets: the network is split. Afterwards what has waited goes on; not a byte is lost.
  void set_silent(bool silent);
  // For what is taken from now on, also on connections that are there; ranges for cuts hold for new ones. kInvalid for
  // a profile that cannot be.
  Status set_profile(const Profile& profile);

  // All that has reached a client or the server by now is counted.
  Statistics statistics() const;

 private:
  Relay(Address address, std::unique_ptr<Loop> loop);

  Address address_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace ravnest::relay
