// For tests: a link server that runs in a thread of its own for as long as the object lives.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "ravnest/machine/link_server.h"
#include "ravnest/net/event_descriptor.h"

namespace ravnest {

class RunningServer {
 public:
  explicit RunningServer(const LinkServerOptions& options, Duration length = std::chrono::minutes(2))
      : server_(LinkServer::open(options)), wait_(Wait::of(length, stop_.number())) {
    EXPECT_TRUE(server_.ok()) << server_.status();
    thread_ = std::thread([this] { ended_ = server_->serve(wait_, Logger("server", Level::kWarning)); });
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  ~RunningServer() {
    stop_.raise();
    if (thread_.joinable()) thread_.join();
  }

  Address address() const { return {"127.0.0.1", server_->port()}; }
  void stop() const { stop_.raise(); }
  // Until `serve` has returned; what it returned.
  Status join() {
    thread_.join();
    return ended_;
  }

 private:
  EventDescriptor stop_;
  Result<LinkServer> server_;
  Wait wait_;
  Status ended_;
  std::thread thread_;
};

}  // namespace ravnest
