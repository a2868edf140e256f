#include "ravnest/transport/outbox.h"

namespace ravnest::transport {

Status Outbox::send(const std::string& peer, wire::Message message, Priority priority) {
  const Queue queue{peer, priority};
  std::deque<wire::Message>& kept = kept_[queue];
  if (kept.empty()) {
    const auto fate = attempt(queue, message);
    if (!fate.ok()) return fate.status();
    if (*fate != Fate::kKept) return {};
  }
  kept.push_back(std::move(message));
  return {};
}

Status Outbox::flush() {
  if (!wants_room_->exchange(false)) return {};
  for (auto& [queue, kept] : kept_) {
    while (!kept.empty()) {
      const auto fate = attempt(queue, kept.front());
      if (!fate.ok()) return fate.status();
      if (*fate == Fate::kKept) break;
      kept.pop_front();
    }
  }
  return {};
}

Result<Outbox::Fate> Outbox::attempt(const Queue& queue, const wire::Message& message) {
  const std::string& peer = queue.first;
  const auto on_completion = [wants_room = wants_room_, &endpoint = endpoint_, channel = channel_](const Status&) {
    if (wants_room->load()) endpoint.interrupt(channel);
  };
  const auto try_once = [&] { return endpoint_.send(peer, message, queue.second, on_completion); };
  Status sent = try_once();
  if (sent.code() == Code::kUnavailable) {
    const auto known = endpoint_.statistics(peer);
    if (known.ok() && (known->state == PeerState::kLost || known->state == PeerState::kLeft)) return Fate::kDropped;
    // Said before trying again, so that no completion goes by unnoticed in between.
    wants_room_->store(true);
    sent = try_once();
    if (sent.code() == Code::kUnavailable) return Fate::kKept;
  }
  if (sent.code() == Code::kCancelled) return Fate::kDropped;
  if (!sent.ok()) return sent.with_context(text("for ", peer));
  return Fate::kSent;
}

}  // namespace ravnest::transport
