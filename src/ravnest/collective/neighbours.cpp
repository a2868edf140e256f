#include "ravnest/collective/neighbours.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ravnest::collective {
namespace {

using transport::Channel;
using transport::PeerChange;
using transport::PeerState;
using transport::Priority;

Status departure(const std::string& peer, PeerState state, const std::string& reason) {
  return unavailable(peer, state == PeerState::kLeft ? " has left" : " was lost", reason.empty() ? "" : ": ", reason);
}

bool is_gone(PeerState state) { return state == PeerState::kLost || state == PeerState::kLeft; }

}  // namespace

Neighbours::Neighbours(transport::Endpoint& endpoint, std::vector<std::string> members, std::size_t self)
    : endpoint_(endpoint), members_(std::move(members)), self_(self) {
  if (members_.size() > 1) catch_up();
}

void Neighbours::catch_up() {
  for (;;) {
    auto event = endpoint_.receive(TimePoint(), Channel::kAveraging);
    if (!event.ok()) {
      if (event.status().code() == Code::kUnavailable) continue;  // an interruption, meant for someone earlier
      return;
    }
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      gone_.erase(event->peer);
      if (is_gone(change->state) && is_member(event->peer)) {
        gone_.emplace(event->peer, *change);
      }
      continue;
    }
    auto* chunk = std::get_if<wire::RingChunk>(&std::get<wire::Message>(event->what));
    if (chunk != nullptr && event->peer == previous()) {
      waiting_ = std::move(*chunk);
      return;
    }
    ++ignored_;
  }
}

bool Neighbours::is_member(const std::string& peer) const {
  return std::ranges::find(members_, peer) != members_.end();
}

bool Neighbours::ends_all(const std::string& peer, const PeerChange& change) const {
  return change.state == PeerState::kLost || peer == previous();
}

Status Neighbours::ready() const {
  for (const auto& [peer, change] : gone_) {
    if (ends_all(peer, change)) return departure(peer, change.state, change.reason);
  }
  return {};
}

Status Neighbours::send(wire::RingChunk chunk) {
  if (unsent_.empty()) {
    const auto accepted = offer(chunk);
    if (!accepted.ok() || *accepted) return accepted.status();
  }
  unsent_.push_back(std::move(chunk));
  return {};
}

Status Neighbours::flush() {
  if (!wants_room_->exchange(false)) return {};
  while (!unsent_.empty()) {
    const auto accepted = offer(unsent_.front());
    if (!accepted.ok() || !*accepted) return accepted.status();
    unsent_.pop_front();
  }
  return {};
}

// Every message says when it has arrived: it may be the last one that leaves no room for others.
Status Neighbours::pass_on(const wire::RingChunk& chunk, TimePoint deadline) {
  const auto on_completion = [wants_room = wants_room_, &endpoint = endpoint_](const Status&) {
    if (wants_room->load()) endpoint.interrupt(Channel::kAveraging);
  };
  return endpoint_.send(next(), chunk, Priority::kBulk, on_completion, deadline);
}

Result<bool> Neighbours::offer(const wire::RingChunk& chunk) {
  const auto try_once = [&] { return pass_on(chunk, TimePoint()); };
  Status sent = try_once();
  if (sent.code() == Code::kUnavailable) {
    const auto peer = endpoint_.statistics(next());
    if (peer.ok() && is_gone(peer->state)) return departure(next(), peer->state, peer->reason);
    // Said before trying again, so that no completion goes by unnoticed in between.
    wants_room_->store(true);
    sent = try_once();
    if (sent.code() == Code::kUnavailable) return false;
    wants_room_->store(false);
  }
  if (!sent.ok()) return sent;
  return true;
}

Result<std::optional<wire::RingChunk>> Neighbours::receive(TimePoint deadline) {
  if (waiting_) return std::exchange(waiting_, std::nullopt);
  for (;;) {
    const bool was_full = !has_room();
    if (Status flushed = flush(); !flushed.ok()) return flushed;
    if (was_full && has_room()) return std::optional<wire::RingChunk>();
    auto event = endpoint_.receive(deadline, Channel::kAveraging);
    if (!event.ok()) {
      if (event.status().code() == Code::kUnavailable) continue;  // there may be room
      return event.status();
    }
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      if (Status status = on_change(event->peer, *change); !status.ok()) return status;
      continue;
    }
    auto* chunk = std::get_if<wire::RingChunk>(&std::get<wire::Message>(event->what));
    if (chunk != nullptr && event->peer == previous()) return std::optional(std::move(*chunk));
    ++ignored_;
  }
}

Status Neighbours::on_change(const std::string& peer, const PeerChange& change) {
  if (!is_gone(change.state) || !is_member(peer)) return {};
  gone_.insert_or_assign(peer, change);
  return ends_all(peer, change) ? departure(peer, change.state, change.reason) : Status();
}

Status Neighbours::finish(TimePoint deadline) {
  while (!unsent_.empty()) {
    Status sent = pass_on(unsent_.front(), deadline);
    if (sent.code() == Code::kUnavailable) {
      const auto peer = endpoint_.statistics(next());
      if (peer.ok() && is_gone(peer->state)) return departure(next(), peer->state, peer->reason);
      return ravnest::deadline(next(), " has not taken ", unsent_.size(), " chunks in time");
    }
    if (!sent.ok()) return sent;
    unsent_.pop_front();
  }
  return {};
}

double Neighbours::round_trip_s() const {
  const auto statistics = endpoint_.statistics(next());
  return statistics.ok() ? statistics->round_trip_s : 0;
}

std::string Neighbours::outlook() const {
  const auto before = endpoint_.statistics(previous());
  if (!before.ok()) return before.status().message();
  std::string said = text(previous(), " is ", before->state, before->reason.empty() ? "" : ": ", before->reason);
  for (const auto& [peer, change] : gone_) said += text("; ", departure(peer, change.state, change.reason).message());
  return said;
}

}  // namespace ravnest::collective
