#include "ravnest/transport/outbox.h"

#include <iterator>
#include <variant>

namespace ravnest::transport {

Priority priority_of(const wire::Message& message) {
  struct ByKind {
    Priority operator()(const wire::Forward&) const { return Priority::kNormal; }
    Priority operator()(const wire::Backward&) const { return Priority::kHigh; }
    Priority operator()(const wire::RingChunk&) const { return Priority::kBulk; }
    Priority operator()(const wire::Ready&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Report&) const { return Priority::kNormal; }
    Priority operator()(const wire::TiedTensors&) const { return Priority::kNormal; }
    Priority operator()(const wire::Failed&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Over&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Averaging&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Account&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Closed&) const { return Priority::kUrgent; }
    Priority operator()(const wire::Meeting&) const { return Priority::kUrgent; }
    // As the accounts and the end of a call, which they come before.
    Priority operator()(const wire::Checkpointing&) const { return Priority::kUrgent; }
  };
  return std::visit(ByKind(), message);
}

Status Outbox::send(const std::string& peer, wire::Message message) {
  Queue queue{peer, priority_of(message)};
  // What is kept goes first, or the messages would change their order.
  if (!kept_.contains(queue)) {
    const auto fate = attempt(queue, message);
    if (!fate.ok()) return fate.status();
    if (*fate == Fate::kSettled) return {};
  }
  kept_[std::move(queue)].push_back(std::move(message));
  return {};
}

Status Outbox::flush() {
  if (!wants_room_->exchange(false)) return {};
  for (auto each = kept_.begin(); each != kept_.end();) {
    auto& [queue, messages] = *each;
    while (!messages.empty()) {
      const auto fate = attempt(queue, messages.front());
      if (!fate.ok()) return fate.status();
      if (*fate == Fate::kKept) break;
      messages.pop_front();
    }
    each = messages.empty() ? kept_.erase(each) : std::next(each);
  }
  return {};
}

Result<Outbox::Fate> Outbox::attempt(const Queue& queue, const wire::Message& message) {
  const std::string& peer = queue.first;
  // Every message says when it has arrived: it may be the last one that leaves no room for others.
  const auto on_completion = [wants_room = wants_room_, &endpoint = endpoint_, channel = channel_](const Status&) {
    if (wants_room->load()) endpoint.interrupt(channel);
  };
  const auto try_now = [&] { return endpoint_.send(peer, message, queue.second, on_completion, TimePoint()); };
  Status sent = try_now();
  if (sent.code() == Code::kUnavailable) {
    const auto known = endpoint_.statistics(peer);
    if (known.ok() && (known->state == PeerState::kLost || known->state == PeerState::kLeft)) {
      ++dropped_;
      return Fate::kSettled;
    }
    // Said before trying again, so that no completion goes by unnoticed in between.
    wants_room_->store(true);
    sent = try_now();
    if (sent.code() == Code::kUnavailable) return Fate::kKept;
    if (kept_.empty()) wants_room_->store(false);
  }
  if (sent.code() == Code::kCancelled) {
    ++dropped_;
    return Fate::kSettled;
  }
  if (!sent.ok()) return sent.with_context(text("for ", peer));
  return Fate::kSettled;
}

}  // namespace ravnest::transport
