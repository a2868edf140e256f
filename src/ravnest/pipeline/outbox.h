// Sends to the other stages without ever waiting: what does not fit into a peer's queue is kept and sent when it does.
//
// The thread that sends is the one that takes messages in, so it must not wait: two stages that wait for each other
// would wait for ever. What is kept is bounded by the passes in flight. One thread uses it.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::pipeline {

class Outbox {
 public:
  // `nodes` are the stages' names. The endpoint is interrupted when there may be room again.
  Outbox(transport::Endpoint& endpoint, std::vector<std::string> nodes, int self)
      : endpoint_(endpoint), nodes_(std::move(nodes)), self_(self) {}

  // kInvalid for a message that can never be sent. For a stage that is lost or has left nothing happens: whoever
  // watches the peers knows.
  Status send(int stage, wire::Message message);
  Status send_to_others(const wire::Message& message);
  // Sends what has room by now.
  Status flush();

 private:
  enum class Fate : unsigned char { kSent, kDropped, kKept };
  Result<Fate> attempt(int stage, const wire::Message& message);

  transport::Endpoint& endpoint_;
  const std::vector<std::string> nodes_;
  const int self_;
  std::map<int, std::deque<wire::Message>> kept_;
  // Shared with completions, which may come when the outbox is gone.
  std::shared_ptr<std::atomic<bool>> wants_room_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ravnest::pipeline
