// Sends without ever waiting: what does not fit into a peer's queue is kept, and sent when it does.
//
// For a thread that also receives: it must not wait for room, or two nodes that wait for each other would wait for
// ever. What is kept is not bounded here; the protocol above has to. One thread uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ravnest/base/status.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::transport {

// What each kind of message is sent with.
Priority priority_of(const wire::Message& message);

class Outbox {
 public:
  // The endpoint outlives it. The channel's `receive` is interrupted when there may be room again: `flush` then.
  Outbox(Endpoint& endpoint, Channel channel) : endpoint_(endpoint), channel_(channel) {}

  // With the priority of its kind. kInvalid for a message that can never be sent. A message to a peer that is lost or
  // has left, or of an endpoint that is closed, is dropped and counted: whoever receives hears of these.
  Status send(const std::string& peer, wire::Message message);
  // Sends what has room by now.
  Status flush();

  // Whether a message would go at once, as far as is known: nothing is kept for the peer.
  bool has_room(const std::string& peer, Priority priority) const { return !kept_.contains({peer, priority}); }
  std::uint64_t dropped() const { return dropped_; }

 private:
  enum class Fate : unsigned char { kSettled, kKept };
  using Queue = std::pair<std::string, Priority>;

  Result<Fate> attempt(const Queue& queue, const wire::Message& message);

  Endpoint& endpoint_;
  const Channel channel_;
  std::map<Queue, std::deque<wire::Message>> kept_;  // no queue is empty
  std::uint64_t dropped_ = 0;
  // Shared with completions, which may come when the outbox is gone.
  std::shared_ptr<std::atomic<bool>> wants_room_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ravnest::transport
