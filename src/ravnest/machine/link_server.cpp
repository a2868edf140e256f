#include "ravnest/machine/link_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "ravnest/machine/link_protocol.h"
#include "ravnest/machine/link_stream.h"

namespace ravnest {
namespace {

Wait shorter(const Wait& wait, Duration limit) {
  return {std::min(wait.deadline, Wait::of(limit).deadline), wait.stop};
}

// The rate from the client to here.
Result<StreamRate> measure(Socket& socket, const LinkHello& hello, const Wait& wait) {
  const Duration length = std::chrono::milliseconds(hello.stream_ms);
  for (std::uint32_t i = 0; i < hello.echoes; ++i) {
    std::array<std::byte, 1> byte{};
    if (Status received = socket.receive(byte, wait); !received.ok()) return received;
    byte[0] = std::byte{0};
    if (Status sent = socket.send(byte, wait); !sent.ok()) return sent;
  }
  const auto up = receive_stream(socket, length, wait);
  if (!up.ok()) return up.status();
  if (Status sent = socket.send(encode(*up), wait); !sent.ok()) return sent;
  if (Status sent = send_stream(socket, length, wait); !sent.ok()) return sent;
  std::array<std::byte, 1> goodbye{};
  if (Status received = socket.receive(goodbye, wait); !received.ok()) return received;
  return up;
}

// What the connections of one server share. `busy` is held by the one client that is measured.
struct Attendance {
  const LinkServerOptions& options;
  const Wait& wait;
  const Logger& log;
  std::atomic<bool> busy = false;
};

struct Connection {
  std::thread thread;
  std::atomic<bool> done = false;
};

// From the hello to the end.
Status attend(Socket& socket, Attendance& shared) {
  const Wait hello_wait = shorter(shared.wait, shared.options.hello_limit);
  std::array<std::byte, kHelloBytes> bytes{};
  if (Status received = socket.receive(bytes, hello_wait); !received.ok()) return received.with_context("no hello");
  const auto hello = decode_hello(bytes);
  if (!hello.ok()) {
    // A stranger gets nothing; a client of another version or with other wishes learns that it is refused.
    if (hello.status().code() != Code::kCorrupt) {
      if (Status sent = socket.send(encode(LinkAnswer::kRefused), hello_wait); !sent.ok()) return sent;
    }
    return hello.status();
  }
  if (shared.busy.exchange(true)) {
    if (Status sent = socket.send(encode(LinkAnswer::kBusy), hello_wait); !sent.ok()) return sent;
    return unavailable("told to come back: another client is being measured");
  }
  const Wait client_wait = shorter(shared.wait, shared.options.client_limit);
  Status answered = socket.send(encode(LinkAnswer::kReady), client_wait);
  const auto up = answered.ok() ? measure(socket, *hello, client_wait) : Result<StreamRate>(answered);
  shared.busy = false;
  if (up.ok()) shared.log.info("measured ", socket.peer(), ": ", up->mbps(), " Mbps from there to here");
  return up.status();
}

void attend_and_close(Socket socket, Attendance& shared) {
  const std::string peer = socket.peer();
  const Status status = attend(socket, shared);
  if (!status.ok()) shared.log.warning("no measurement for ", peer, ": ", status.message());
}

}  // namespace

Result<LinkServer> LinkServer::open(const LinkServerOptions& options) {
  auto listener = Listener::open(options.host, options.port);
  if (!listener.ok()) return listener.status();
  return LinkServer(options, *std::move(listener));
}

Status LinkServer::serve(const Wait& wait, const Logger& log) {
  Attendance shared{options_, wait, log};
  std::list<Connection> connections;
  const auto join_where = [&](auto over) {
    connections.remove_if([&](Connection& connection) {
      if (!over(connection)) return false;
      connection.thread.join();
      return true;
    });
  };
  Status ended;
  for (;;) {
    auto accepted = listener_.accept(wait);
    join_where([](const Connection& connection) { return connection.done.load(); });
    if (!accepted.ok()) {
      if (accepted.status().code() != Code::kDeadline) ended = accepted.status();
      break;
    }
    if (connections.size() >= kMaxLinkConnections) {
      log.warning("closed the connection of ", accepted->peer(), ": ", connections.size(), " are open already");
      continue;
    }
    Connection& connection = connections.emplace_back();
    connection.thread = std::thread([&shared, &connection, socket = *std::move(accepted)]() mutable {
      attend_and_close(std::move(socket), shared);
      connection.done = true;
    });
  }
  join_where([](const Connection&) { return true; });
  return ended;
}

}  // namespace ravnest
