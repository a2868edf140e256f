// TCP connections on which nothing waits without an end.
//
// Every call that may block takes a Wait and fails with kDeadline when its time is over, with kCancelled when its stop
// descriptor becomes readable, and with kUnavailable when the network or the other side is the reason. Objects are
// move-only and closed by their destructor; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ravnest/base/bytes.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/net/address.h"

namespace ravnest {

struct Wait {
  TimePoint deadline;
  int stop = -1;  // a descriptor (eventfd, signalfd, pipe) that becomes readable when all is to end; -1: none

  static Wait of(Duration length, int stop = -1) { return {SystemClock().now() + length, stop}; }
};

// Until `events` (of poll) are there on the descriptor; kDeadline or kCancelled as in all waits.
Status wait_for(int descriptor, short events, const Wait& wait);

// Whether a call on a descriptor that does not wait failed with an `error` that is none: it is to be tried again.
bool would_block(int error);

class Socket {
 public:
  // Resolves the host and tries its addresses in turn. `system_error` is told the system's number for a failure to
  // connect, such as ECONNREFUSED; it stays 0 where the name has no address or the time was over.
  static Result<Socket> connect(const Address& to, const Wait& wait, int* system_error = nullptr);
  // Takes a connected descriptor over.
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  Status send(ByteSpan bytes, const Wait& wait);
  // At least one of the bytes; for streams, which stop at a time and not at a byte.
  Result<std::size_t> send_some(ByteSpan bytes, const Wait& wait);
  // All of `into`; kUnavailable where the other side closes before.
  Status receive(std::span<std::byte> into, const Wait& wait);
  // What there is, at least one byte; 0 where the other side has closed.
  Result<std::size_t> receive_some(std::span<std::byte> into, const Wait& wait);

  // Who is at the other end, for messages.
  std::string peer() const;
  // Its host alone, as a number that others can dial: of an IPv4 host that reached an IPv6 socket, the IPv4 one.
  std::string peer_host() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

class Listener {
 public:
  // Listens on `host` (a name or a number; empty: on every address, IPv6 included where there is any). Port 0 takes a
  // free one. kInvalid where the host is not one of this machine's, kUnavailable where the port is taken.
  static Result<Listener> open(const std::string& host, std::uint16_t port);

  std::uint16_t port() const { return port_; }
  int descriptor() const { return socket_.descriptor(); }
  Result<Socket> accept(const Wait& wait);

 private:
  Listener(Socket socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  Socket socket_;
  std::uint16_t port_;
};

}  // namespace ravnest
