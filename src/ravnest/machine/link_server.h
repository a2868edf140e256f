// The side that is measured against: `ravnest benchmark --serve`.
//
// It reads and discards, sends zeros, and reports what it counted; nothing that a client sends is kept or acted on. One
// client is measured at a time, a second is told so. Whoever says no proper hello in time is cut off, and does not keep
// clients out meanwhile. At most kMaxLinkConnections are open; more are closed at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/net/socket.h"

namespace ravnest {

inline constexpr std::size_t kMaxLinkConnections = 8;

struct LinkServerOptions {
  std::string host;  // to listen on; empty: everywhere
  std::uint16_t port = 0;
  Duration hello_limit = std::chrono::seconds(5);
  Duration client_limit = std::chrono::seconds(60);  // for one whole measurement
};

class LinkServer {
 public:
  // Listens from now on; clients wait until `serve` is called.
  static Result<LinkServer> open(const LinkServerOptions& options);

  std::uint16_t port() const { return listener_.port(); }

  // Serves until the wait's deadline (ok) or stop (kCancelled); every connection has ended when it returns. Failures of
  // single clients go to the log only. To be called by one thread.
  Status serve(const Wait& wait, const Logger& log);

 private:
  LinkServer(LinkServerOptions options, Listener listener)
      : options_(std::move(options)), listener_(std::move(listener)) {}

  LinkServerOptions options_;
  Listener listener_;
};

}  // namespace ravnest
