// A free port for a process that is yet to listen on it.
//
// A port that is only found free and let go may be anybody's before it is used: another program's, or the near end of a
// connection that dials the very port and so reaches itself.
#pragma once

#include <cstdint>
#include <utility>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"

namespace ravnest {

// While the object lives, the system gives the port to no one, on any address of this machine; whoever asks for it by
// number, with SO_REUSEADDR as servers do, may listen on it, one at a time and as often as they like. Nothing answers
// until then.
class HeldPort {
 public:
  // kUnavailable where the system has none left.
  static Result<HeldPort> take();

  std::uint16_t port() const { return port_; }

 private:
  HeldPort(Descriptor socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  Descriptor socket_;
  std::uint16_t port_;
};

}  // namespace ravnest
