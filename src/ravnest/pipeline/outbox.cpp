#include "ravnest/pipeline/outbox.h"

#include <variant>

namespace ravnest::pipeline {
namespace {

using transport::PeerState;
using transport::Priority;

Priority priority_of(const wire::Message& message) {
  if (std::holds_alternative<wire::Backward>(message)) return Priority::kHigh;
  if (std::holds_alternative<wire::Failed>(message) || std::holds_alternative<wire::Over>(message) ||
      std::holds_alternative<wire::Control>(message))
    return Priority::kUrgent;
  return Priority::kNormal;
}

}  // namespace

Status Outbox::send(int stage, wire::Message message) {
  std::deque<wire::Message>& kept = kept_[stage];
  if (kept.empty()) {
    const auto fate = attempt(stage, message);
    if (!fate.ok()) return fate.status();
    if (*fate != Fate::kKept) return {};
  }
  kept.push_back(std::move(message));
  return {};
}

Status Outbox::send_to_others(const wire::Message& message) {
  for (int stage = 0; stage < static_cast<int>(nodes_.size()); ++stage) {
    if (stage == self_) continue;
    if (Status sent = send(stage, message); !sent.ok()) return sent;
  }
  return {};
}

Status Outbox::flush() {
  if (!wants_room_->exchange(false)) return {};
  for (auto& [stage, kept] : kept_) {
    while (!kept.empty()) {
      const auto fate = attempt(stage, kept.front());
      if (!fate.ok()) return fate.status();
      if (*fate == Fate::kKept) break;
      kept.pop_front();
    }
  }
  return {};
}

Result<Outbox::Fate> Outbox::attempt(int stage, const wire::Message& message) {
  const std::string& node = nodes_[static_cast<std::size_t>(stage)];
  const auto on_completion = [wants_room = wants_room_, &endpoint = endpoint_](const Status&) {
    if (wants_room->load()) endpoint.interrupt();
  };
  const auto try_once = [&] { return endpoint_.send(node, message, priority_of(message), on_completion); };
  Status sent = try_once();
  if (sent.code() == Code::kUnavailable) {
    const auto peer = endpoint_.statistics(node);
    if (peer.ok() && (peer->state == PeerState::kLost || peer->state == PeerState::kLeft)) return Fate::kDropped;
    // Said before trying again, so that no completion goes by unnoticed in between.
    wants_room_->store(true);
    sent = try_once();
    if (sent.code() == Code::kUnavailable) return Fate::kKept;
  }
  if (sent.code() == Code::kCancelled) return Fate::kDropped;
  if (!sent.ok()) return sent.with_context(text("for ", node));
  return Fate::kSent;
}

}  // namespace ravnest::pipeline
