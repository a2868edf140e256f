// Answers to the questions of those who only ask (contact.h).
//
// Runs on the network's thread, but for dialling back, which takes a thread of its own, a few at a time: its answers
// are taken by `take` after `ready` has become readable. It dials only where the plan says that the asking node is.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/background_tasks.h"
#include "ravnest/transport/tcp/connection.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/transport/tcp/tls.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport::tcp {

class ProbeService {
 public:
  struct Answer {
    std::uint64_t connection = 0;
    wire::ProbeAnswer answer;
  };

  // `options` and `tls` outlive it.
  ProbeService(const Options& options, const TlsContext* tls) : options_(options), tls_(tls) {}

  // Answers the frame that the connection's reader has, now or later.
  Status answer(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  std::vector<Answer> take();
  int ready() const { return diallings_.ready(); }

 private:
  void dial_back(Connection& connection, std::uint64_t number) RAVNEST_REQUIRES(connection.in_use);

  const Options& options_;
  const TlsContext* tls_;
  BackgroundTasks<Answer> diallings_;
  int under_way_ = 0;
};

}  // namespace ravnest::transport::tcp
