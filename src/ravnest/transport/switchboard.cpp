#include "ravnest/transport/switchboard.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/check.h"

namespace ravnest::transport {

std::string_view name(PeerState state) {
  switch (state) {
    case PeerState::kWaiting: return "waiting";
    case PeerState::kUp: return "up";
    case PeerState::kSlow: return "slow";
    case PeerState::kDown: return "down";
    case PeerState::kLost: return "lost";
    case PeerState::kLeft: return "left";
  }
  return "unknown";
}

Channel channel_of(const wire::Message& message) {
  const bool averages =
      std::holds_alternative<wire::RingChunk>(message) || std::holds_alternative<wire::Averaging>(message);
  return averages ? Channel::kAveraging : Channel::kTraining;
}

Switchboard::Switchboard(SwitchboardOptions options, const Clock& clock, Wake wake)
    : options_(std::move(options)), clock_(clock), wake_(std::move(wake)), pool_(3 * options_.session.window_bytes) {
  for (const std::string& peer : options_.peers) peers_[peer].session = new_session(options_.new_session_id());
}

Switchboard::Peer* Switchboard::find(const std::string& peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : &found->second;
}

const Switchboard::Peer* Switchboard::find(const std::string& peer) const {
  return const_cast<Switchboard*>(this)->find(peer);
}

std::unique_ptr<Session> Switchboard::new_session(std::uint64_t id) {
  return std::make_unique<Session>(options_.session, id, pool_, clock_.now());
}

// -- for the application

Status Switchboard::gone(const std::string& name, const Peer& peer) const {
  return unavailable(name, " is ", transport::name(peer.state), peer.reason.empty() ? "" : ": ", peer.reason);
}

Status Switchboard::send(const std::string& peer_name, wire::Message message, Priority priority, Completion done,
                         TimePoint deadline) {
  // Before the lock is taken, which all threads that send share.
  auto encoded = wire::encode(message);
  if (!encoded.ok()) return encoded.status().with_context(text("a message to ", peer_name));
  const auto lane = static_cast<std::size_t>(priority);
  const std::uint64_t size = encoded->size;
  bool linked = false;
  {
    MutexLock lock(mutex_);
    Peer* peer = find(peer_name);
    if (peer == nullptr) return not_found(peer_name, " is not a peer of ", options_.name);
    // Asked anew after each wait: the peer may be lost meanwhile, and its session another one.
    const auto ended = [&]() RAVNEST_REQUIRES(mutex_) {
      return shut_ || !sending_ || peer->state == PeerState::kLost || peer->state == PeerState::kLeft;
    };
    while (!ended() && !peer->session->has_room(lane)) {
      if (clock_.now() >= deadline) {
        return unavailable("the queue to ", peer_name, " is full; the peer is ", transport::name(peer->state));
      }
      progressed_.wait_until(mutex_, deadline);
    }
    if (shut_) return *shut_;
    if (!sending_) return cancelled(options_.name, " is closing");
    if (ended()) return gone(peer_name, *peer);
    Status accepted = peer->session->enqueue(lane, std::move(message), std::move(encoded).value(), std::move(done));
    if (!accepted.ok()) return accepted;
    linked = peer->session->linked();
  }
  if (linked) wake_(peer_name, size);
  return {};
}

Result<Event> Switchboard::receive(TimePoint deadline, Channel channel) {
  Event event;
  bool report = false;
  {
    MutexLock lock(mutex_);
    ReceiveQueue& own = receive_queue(channel);
    while (!shut_ && own.events.empty()) {
      if (std::exchange(own.interrupted, false)) return unavailable("interrupted");
      if (clock_.now() >= deadline) return ravnest::deadline("nothing came");
      arrived(channel).wait_until(mutex_, deadline);
    }
    if (shut_) return *shut_;
    Queued queued = std::move(own.events.front());
    own.events.pop_front();
    RAVNEST_CHECK(queued.weight <= unread_bytes_, options_.name, " takes ", queued.weight, " bytes of ", queued.peer,
                  ", of ", unread_bytes_, " unread");
    unread_bytes_ -= queued.weight;
    Peer& peer = *find(queued.peer);
    RAVNEST_CHECK(queued.serial <= peer.serial, "a message of session ", queued.serial, " of ", queued.peer,
                  ", which is at ", peer.serial);
    // Only now does the message count as taken, so the peer's window follows the application, not the network. One that
    // came by an earlier session is nothing to the present one.
    if (queued.weight > 0 && queued.serial == peer.serial) {
      const TimePoint before = peer.session->next_deadline();
      peer.session->consumed(queued.lane, queued.weight, clock_.now());
      report = peer.session->linked() && peer.session->next_deadline() < before;
    }
    event = {std::move(queued.peer), std::move(queued.what)};
  }
  if (report) wake_(event.peer, 0);
  return event;
}

void Switchboard::interrupt(Channel channel) {
  {
    const MutexLock lock(mutex_);
    receive_queue(channel).interrupted = true;
  }
  arrived(channel).notify_one();
}

Result<PeerStatistics> Switchboard::statistics(const std::string& peer_name) const {
  const MutexLock lock(mutex_);
  const Peer* peer = find(peer_name);
  if (peer == nullptr) return not_found(peer_name, " is not a peer of ", options_.name);
  PeerStatistics statistics = peer->past;
  statistics.state = peer->state;
  statistics.reason = peer->reason;
  statistics.trouble = peer->trouble;
  peer->session->add_to(statistics);
  return statistics;
}

void Switchboard::stop_sending() {
  const MutexLock lock(mutex_);
  sending_ = false;
  progressed_.notify_all();
}

Status Switchboard::wait_until_drained(TimePoint deadline) {
  MutexLock lock(mutex_);
  for (;;) {
    if (shut_) return *shut_;
    std::string open;
    for (const auto& [name, peer] : peers_) {
      if (!peer.session->all_acknowledged()) open += text(open.empty() ? "" : ", ", name, " (", peer.state, ")");
    }
    if (open.empty()) return {};
    if (clock_.now() >= deadline) {
      return ravnest::deadline("messages were still open when ", options_.name, " closed, to ", open);
    }
    progressed_.wait_until(mutex_, deadline);
  }
}

void Switchboard::shut(const Status& status) {
  {
    const MutexLock lock(mutex_);
    if (shut_) return;
    shut_ = status;
    for (auto& [name, peer] : peers_) {
      peer.session->abandon(status);
      collect(name, peer);
    }
    for (ReceiveQueue& each : receive_queues_) {
      each.events.clear();
      each.notify = true;
    }
    notify_progressed_ = true;
  }
  settle();
  // Without a deadline, like joining a thread: nobody may be called after this, and completions are short.
  MutexLock lock(mutex_);
  settled_.wait(mutex_,
                [&]() RAVNEST_REQUIRES(mutex_) { return !settling_ || *settling_ == std::this_thread::get_id(); });
}

}  // namespace ravnest::transport
