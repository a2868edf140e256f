// What a carrier tells a switchboard, and asks of it.
#include <algorithm>
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/transport/switchboard.h"

namespace ravnest::transport {

bool Switchboard::knows(const std::string& peer) const {
  const MutexLock lock(mutex_);
  return peers_.contains(peer);
}

void Switchboard::describe(const std::string& peer, wire::Hello& hello) const {
  const MutexLock lock(mutex_);
  hello.from = options_.name;
  hello.to = peer;
  find(peer)->session->describe(hello);
}

void Switchboard::change(const std::string& name, Peer& peer, PeerState state, std::string reason) {
  const bool news = peer.state != state || state == PeerState::kLost;
  peer.state = state;
  peer.reason = std::move(reason);
  peer.trouble = PeerTrouble::kNone;
  if (news) announce(name, peer);
}

void Switchboard::announce(const std::string& name, const Peer& peer) {
  if (shut_) return;
  for (ReceiveQueue& each : receive_queues_) announce(each, name, peer);
}

void Switchboard::announce(ReceiveQueue& queue, const std::string& name, const Peer& peer) {
  // An application that does not look sees the last of several changes; only a loss must not be missed, and of several
  // in a row the last. So peers that come and go can not fill the queue.
  const auto is_loss = [](PeerState state) { return state == PeerState::kLost || state == PeerState::kLeft; };
  std::deque<Queued>& events = queue.events;
  for (std::size_t i = events.size(); i-- > 0;) {
    const auto* earlier = std::get_if<PeerChange>(&events[i].what);
    if (earlier == nullptr) break;
    if (events[i].peer != name) continue;
    if (is_loss(earlier->state) && !is_loss(peer.state)) break;
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
  }
  events.push_back({name, peer.serial, 0, 0, PeerChange{peer.state, peer.reason, peer.trouble}});
  queue.notify = true;
}

void Switchboard::collect(const std::string& name, Peer& peer) {
  for (Arrived& arrived : peer.session->take_arrived()) {
    if (shut_) continue;
    ReceiveQueue& to = receive_queue(channel_of(arrived.message));
    unread_bytes_ += arrived.weight;
    to.events.push_back({name, peer.serial, arrived.lane, arrived.weight, std::move(arrived.message)});
    to.notify = true;
  }
  auto finished = peer.session->take_finished();
  std::ranges::move(finished, std::back_inserter(finished_));
}

void Switchboard::begin_anew(const std::string& name, Peer& peer, std::uint64_t id, const Status& why) {
  peer.session->abandon(why);
  collect(name, peer);
  PeerStatistics past = peer.past;
  peer.session->add_to(past);
  past.queued_bytes = past.unread_bytes = 0;
  peer.past = past;
  peer.session = new_session(id);
  // What the application has not read yet still comes to it, but gives nothing back to the new session's window.
  ++peer.serial;
  notify_progressed_ = true;
}

Status Switchboard::admits(const std::string& peer, const wire::Hello& hello) const {
  const MutexLock lock(mutex_);
  return admits(peer, *find(peer), hello);
}

// One that takes over while the first is alive would end a healthy run: what the first had been sent would be lost.
Status Switchboard::admits(const std::string& name, const Peer& peer, const wire::Hello& hello) const {
  if (!peer.session->linked() || peer.session->continues(hello)) return {};
  return unavailable("another process is ", name, " and talks to ", options_.name,
                     ": each node may run only once; end one of the two");
}

Status Switchboard::linked(const std::string& peer_name, const wire::Hello& hello, std::uint64_t own_session) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  if (Status admitted = admits(peer_name, peer, hello); !admitted.ok()) return admitted;
  // The peer would go on with the old one.
  if (peer.session->id() != own_session) return unavailable("it was given up while the connection was being made");
  if (!peer.session->continues(hello)) {
    const std::string reason = "it has started again and has lost what was sent before";
    // The number stays: the hello that this connection was greeted with has told it to the peer already.
    const std::uint64_t id = peer.session->id();
    begin_anew(peer_name, peer, id, unavailable(peer_name, " was lost: ", reason));
    if (peer.state != PeerState::kLost) change(peer_name, peer, PeerState::kLost, reason);
  }
  Status linked = peer.session->link(hello, clock_.now());
  collect(peer_name, peer);
  notify_progressed_ = true;
  if (!linked.ok()) return linked;
  ++peer.past.connections;
  change(peer_name, peer, PeerState::kUp, "");
  return {};
}

void Switchboard::unlinked(const std::string& peer_name, std::string_view reason) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  if (!peer.session->linked()) return;
  peer.session->unlink(clock_.now());
  change(peer_name, peer, PeerState::kDown, std::string(reason));
}

void Switchboard::note(const std::string& peer_name, std::string reason, PeerTrouble trouble) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  if (peer.session->linked() || peer.reason == reason) return;
  if (peer.state != PeerState::kWaiting && peer.state != PeerState::kDown) return;
  peer.reason = std::move(reason);
  peer.trouble = trouble;
  if (peer.state == PeerState::kWaiting) announce(peer_name, peer);
}

void Switchboard::left(const std::string& peer_name, std::string_view reason) {
  end(peer_name, PeerState::kLeft, reason);
}

void Switchboard::give_up(const std::string& peer_name, std::string_view reason) {
  end(peer_name, PeerState::kLost, reason);
}

void Switchboard::end(const std::string& peer_name, PeerState state, std::string_view reason) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  begin_anew(peer_name, peer, options_.new_session_id(),
             unavailable(peer_name, state == PeerState::kLeft ? " has left: " : " was lost: ", reason));
  change(peer_name, peer, state, std::string(reason));
}

bool Switchboard::is_linked(const std::string& peer) const {
  const MutexLock lock(mutex_);
  return find(peer)->session->linked();
}

// Not dead, but long enough without a sign of life that a new connection of the same peer is to be believed.
bool Switchboard::is_quiet(const std::string& peer) const {
  const MutexLock lock(mutex_);
  return find(peer)->session->silence(clock_.now()) > 2 * kBeat;
}

std::optional<Frame> Switchboard::next_frame(const std::string& peer) {
  const MutexLock lock(mutex_);
  return find(peer)->session->next_frame(clock_.now());
}

void Switchboard::heard(const std::string& peer) {
  const MutexLock lock(mutex_);
  find(peer)->session->heard(clock_.now());
}

Result<std::span<std::byte>> Switchboard::receive_into(const std::string& peer, std::size_t lane,
                                                       const wire::Chunk& chunk, std::size_t size) {
  const MutexLock lock(mutex_);
  if (Status room = has_room_for(size); !room.ok()) return room;
  return find(peer)->session->receive_into(lane, chunk, size);
}

// Windows bound what one lane of an honest peer brings. This bounds what all of them do together, also where one sends
// ever longer messages, or comes again and again with a new session.
Status Switchboard::has_room_for(std::uint64_t bytes) const {
  std::uint64_t held = unread_bytes_ + bytes;
  for (const auto& [name, peer] : peers_) held += peer.session->incomplete_bytes();
  if (held <= options_.session.max_unread_bytes) return {};
  return unavailable(options_.name, " holds ", held - bytes,
                     " bytes that it has not looked at, and takes no more than ", options_.session.max_unread_bytes);
}

Status Switchboard::chunk_received(const std::string& peer_name, std::size_t lane, std::size_t size) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  Status received = peer.session->chunk_received(lane, size, clock_.now());
  collect(peer_name, peer);
  return received;
}

Status Switchboard::message_received(const std::string& peer_name, std::size_t lane, const wire::Chunk& chunk,
                                     wire::Message message) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  if (Status room = has_room_for(chunk.message_size); !room.ok()) return room;
  Status received = peer.session->message_received(lane, chunk, std::move(message), clock_.now());
  collect(peer_name, peer);
  return received;
}

Status Switchboard::acknowledged(const std::string& peer_name, std::size_t lane, const wire::Acknowledge& acknowledge) {
  const MutexLock lock(mutex_);
  Peer& peer = *find(peer_name);
  Status taken = peer.session->acknowledged(lane, acknowledge);
  collect(peer_name, peer);
  notify_progressed_ = true;
  return taken;
}

void Switchboard::beat(const std::string& peer, const wire::Heartbeat& heartbeat) {
  const MutexLock lock(mutex_);
  find(peer)->session->beat(heartbeat, clock_.now());
}

void Switchboard::count_bytes(const std::string& peer, std::uint64_t sent, std::uint64_t received) {
  const MutexLock lock(mutex_);
  PeerStatistics& past = find(peer)->past;
  past.bytes_sent += sent;
  past.bytes_received += received;
}

std::vector<std::string> Switchboard::look() {
  pool_.trim(clock_.now());
  const MutexLock lock(mutex_);
  std::vector<std::string> silent;
  for (auto& [name, peer] : peers_) {
    const Session::Health health = peer.session->look(clock_.now());
    if (health.lost) {
      const std::string reason = text(health.reason, peer.reason.empty() ? "" : "; ", peer.reason);
      begin_anew(name, peer, options_.new_session_id(), unavailable(name, " was lost: ", reason));
      change(name, peer, PeerState::kLost, reason);
    } else if (peer.session->linked()) {
      change(name, peer, health.slow ? PeerState::kSlow : PeerState::kUp, health.reason);
    }
    if (health.silent) silent.push_back(name);
  }
  return silent;
}

TimePoint Switchboard::next_deadline(const std::string& peer) const {
  const MutexLock lock(mutex_);
  return find(peer)->session->next_deadline();
}

void Switchboard::settle() {
  MutexLock lock(mutex_);
  std::array<bool, kChannels> arrived{};
  for (std::size_t i = 0; i < kChannels; ++i) arrived[i] = std::exchange(receive_queues_[i].notify, false);
  const bool progressed = std::exchange(notify_progressed_, false);
  const bool settles = !finished_.empty() && !settling_;  // whoever is at it goes on until nothing is left
  if (settles) settling_ = std::this_thread::get_id();
  lock.unlock();
  // Without the lock, since those who are woken want it first.
  for (std::size_t i = 0; i < kChannels; ++i) {
    if (arrived[i]) arrived_[i].notify_all();
  }
  if (progressed) progressed_.notify_all();
  if (!settles) return;
  lock.lock();
  while (!finished_.empty()) {
    std::vector<Finished> finished;
    finished.swap(finished_);
    lock.unlock();
    for (Finished& each : finished) each.done(each.status);
    lock.lock();
  }
  RAVNEST_CHECK(settling_ == std::this_thread::get_id(), options_.name, " calls completions on two threads at once");
  settling_.reset();
  settled_.notify_all();
}

}  // namespace ravnest::transport
