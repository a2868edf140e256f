#include "ravnest/collective/members.h"

#include <algorithm>
#include <utility>

namespace ravnest::collective {
namespace {

using transport::PeerChange;
using transport::PeerState;

Status departure(const std::string& peer, PeerState state, const std::string& reason) {
  return unavailable(peer, state == PeerState::kLeft ? " has left" : " was lost", reason.empty() ? "" : ": ", reason);
}

bool is_gone(PeerState state) { return state == PeerState::kLost || state == PeerState::kLeft; }

}  // namespace

Members::Members(const transport::Endpoint& endpoint, std::vector<std::string> names, std::size_t self)
    : endpoint_(endpoint), names_(std::move(names)), self_(self) {}

bool Members::is_member(const std::string& peer) const { return std::ranges::find(names_, peer) != names_.end(); }

bool Members::ends_all(const std::string& peer, const PeerChange& change) const {
  return change.state == PeerState::kLost || peer == previous();
}

Status Members::note(const std::string& peer, const PeerChange& change) {
  if (!is_gone(change.state) || !is_member(peer)) return {};
  gone_.insert_or_assign(peer, change);
  return ends_all(peer, change) ? departure(peer, change.state, change.reason) : Status();
}

void Members::catch_up(const std::string& peer, const PeerChange& change) {
  gone_.erase(peer);
  static_cast<void>(note(peer, change));
}

Status Members::ready() const {
  for (const auto& [peer, change] : gone_) {
    if (ends_all(peer, change)) return departure(peer, change.state, change.reason);
  }
  return {};
}

Status Members::next_is_gone() const {
  const auto peer = endpoint_.statistics(next());
  if (!peer.ok()) return peer.status();
  return departure(next(), peer->state, peer->reason);
}

std::string Members::outlook() const {
  const auto before = endpoint_.statistics(previous());
  if (!before.ok()) return before.status().message();
  std::string said = text(previous(), " is ", before->state, before->reason.empty() ? "" : ": ", before->reason);
  for (const auto& [peer, change] : gone_) said += text("; ", departure(peer, change.state, change.reason).message());
  return said;
}

}  // namespace ravnest::collective
