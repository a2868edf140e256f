// For tests: a relay between clients and a server that are all in the hands of the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "ravnest/net/socket.h"
#include "relay/relay.h"

namespace ravnest::relay {

// For what has to happen: long enough for a machine that has much else to do.
inline Wait soon() { return Wait::of(std::chrono::seconds(60)); }

// Both ends of one connection through the relay.
struct Ends {
  Socket client;
  Socket server;
};

class Network {
 public:
  explicit Network(const Profile& profile = {})
      : listener_(Listener::open("127.0.0.1", 0)), relay_(Relay::open({"127.0.0.1", 0}, server_address(), profile)) {
    EXPECT_TRUE(relay_.ok()) << relay_.status();
  }

  Relay& relay() { return *relay_; }
  Address server_address() const { return {"127.0.0.1", listener_->port()}; }

  Result<Socket> try_to_connect() { return Socket::connect(relay_->address(), soon()); }
  Socket accept() { return listener_->accept(soon()).value(); }
  Ends connect() {
    Socket client = try_to_connect().value();
    return {std::move(client), accept()};
  }

 private:
  Result<Listener> listener_;
  Result<Relay> relay_;
};

// Bytes of which none can be lost, doubled or moved without being noticed.
inline std::vector<std::byte> sample_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  return bytes;
}

struct Received {
  std::vector<std::byte> bytes;
  bool in_order = false;  // the stream came to its end; otherwise it broke off, or the time was over
  Status status;
};

// All that comes until the stream ends, `most` bytes are there, or the time is over.
inline Received receive_all(Socket& socket, std::size_t most = SIZE_MAX, const Wait& wait = soon()) {
  Received received;
  std::vector<std::byte> buffer(256 << 10);
  while (received.bytes.size() < most) {
    const auto count = socket.receive_some(buffer, wait);
    if (!count.ok() || *count == 0) {
      received.in_order = count.ok();
      received.status = count.status();
      break;
    }
    received.bytes.insert(received.bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count));
  }
  return received;
}

inline bool is_reset(const Received& received) { return received.status.code() == Code::kUnavailable; }

}  // namespace ravnest::relay
