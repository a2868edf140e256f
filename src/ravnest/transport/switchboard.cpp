#include "ravnest/transport/switchboard.h"

#include <algorithm>
#include <utility>

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
  auto encoded = wire::encode(message);
  if (!encoded.ok()) return encoded.status().with_context(text("a message to ", peer_name));
  const auto lane = static_cast<std::size_t>(priority);
  const std::uint64_t size = encoded->size;
  bool linked = false;
  {
    std::unique_lock lock(mutex_);
    Peer* peer = find(peer_name);
    if (peer == nullptr) return not_found(peer_name, " is not a peer of ", options_.name);
    const auto ended = [&] {
      return shut_ || !sending_ || peer->state == PeerState::kLost || peer->state == PeerState::kLeft;
    };
    while (!ended() && !peer->session->has_room(lane)) {
      if (clock_.now() >= deadline) {
        return unavailable("the queue to ", peer_name, " is full; the peer is ", transport::name(peer->state));
      }
      progressed_.wait_until(lock, deadline);
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
    std::unique_lock lock(mutex_);
    Inbox& own = inbox(channel);
    while (!shut_ && own.events.empty()) {
      if (std::exchange(own.interrupted, false)) return unavailable("interrupted");
      if (clock_.now() >= deadline) return ravnest::deadline("nothing came");
      own.arrived.wait_until(lock, deadline);
    }
    if (shut_) return *shut_;
    Queued queued = std::move(own.events.front());
    own.events.pop_front();
    Peer& peer = *find(queued.peer);
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
    const std::lock_guard lock(mutex_);
    inbox(channel).interrupted = true;
  }
  inbox(channel).arrived.notify_one();
}

Result<PeerStatistics> Switchboard::statistics(const std::string& peer_name) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = find(peer_name);
  if (peer == nullptr) return not_found(peer_name, " is not a peer of ", options_.name);
  PeerStatistics statistics = peer->past;
  statistics.state = peer->state;
  statistics.reason = peer->reason;
  peer->session->add_to(statistics);
  return statistics;
}

void Switchboard::stop_sending() {
  const std::lock_guard lock(mutex_);
  sending_ = false;
  progressed_.notify_all();
}

Status Switchboard::wait_until_drained(TimePoint deadline) {
  std::unique_lock lock(mutex_);
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
    progressed_.wait_until(lock, deadline);
  }
}

void Switchboard::shut(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (shut_) return;
    shut_ = status;
    for (auto& [name, peer] : peers_) {
      peer.session->abandon(status);
      collect(name, peer);
    }
    for (Inbox& each : inboxes_) {
      each.events.clear();
      each.notify = true;
    }
    notify_progressed_ = true;
  }
  settle();
  // Without a deadline, like joining a thread: nobody may be called after this, and completions are short.
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return !settling_ || *settling_ == std::this_thread::get_id(); });
}

// -- for the carrier

bool Switchboard::knows(const std::string& peer) const { return peers_.contains(peer); }

void Switchboard::describe(const std::string& peer, wire::Hello& hello) const {
  const std::lock_guard lock(mutex_);
  hello.from = options_.name;
  hello.to = peer;
  find(peer)->session->describe(hello);
}

void Switchboard::change(const std::string& name, Peer& peer, PeerState state, std::string reason) {
  const bool news = peer.state != state || state == PeerState::kLost;
  peer.state = state;
  peer.reason = std::move(reason);
  if (news) announce(name, peer);
}

void Switchboard::announce(const std::string& name, const Peer& peer) {
  if (shut_) return;
  for (Inbox& each : inboxes_) announce(each, name, peer);
}

void Switchboard::announce(Inbox& inbox, const std::string& name, const Peer& peer) {
  // An application that does not look sees the last of several changes; only a loss must not be missed, and of several
  // in a row the last. So peers that come and go can not fill the queue.
  const auto is_loss = [](PeerState state) { return state == PeerState::kLost || state == PeerState::kLeft; };
  std::deque<Queued>& events = inbox.events;
  for (std::size_t i = events.size(); i-- > 0;) {
    const auto* earlier = std::get_if<PeerChange>(&events[i].what);
    if (earlier == nullptr) break;
    if (events[i].peer != name) continue;
    if (is_loss(earlier->state) && !is_loss(peer.state)) break;
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
  }
  events.push_back({name, peer.serial, 0, 0, PeerChange{peer.state, peer.reason}});
  inbox.notify = true;
}

void Switchboard::collect(const std::string& name, Peer& peer) {
  for (Arrived& arrived : peer.session->take_arrived()) {
    if (shut_) continue;
    Inbox& to = inbox(channel_of(arrived.message));
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
  ++peer.serial;
  notify_progressed_ = true;
}

Status Switchboard::linked(const std::string& peer_name, const wire::Hello& hello, std::uint64_t own_session) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  // The peer would go on with the old one.
  if (peer.session->id() != own_session) return unavailable("it was given up while the connection was being made");
  if (!peer.session->continues(hello)) {
    const std::string reason = "it has started anew and knows nothing of what was said before";
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
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  if (!peer.session->linked()) return;
  peer.session->unlink(clock_.now());
  change(peer_name, peer, PeerState::kDown, std::string(reason));
}

void Switchboard::note(const std::string& peer_name, std::string reason) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  if (peer.session->linked() || peer.reason == reason) return;
  if (peer.state == PeerState::kWaiting) {
    peer.reason = std::move(reason);
    announce(peer_name, peer);
  } else if (peer.state == PeerState::kDown) {
    peer.reason = std::move(reason);
  }
}

void Switchboard::left(const std::string& peer_name, std::string_view reason) {
  end(peer_name, PeerState::kLeft, reason);
}

void Switchboard::give_up(const std::string& peer_name, std::string_view reason) {
  end(peer_name, PeerState::kLost, reason);
}

void Switchboard::end(const std::string& peer_name, PeerState state, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  begin_anew(peer_name, peer, options_.new_session_id(),
             unavailable(peer_name, state == PeerState::kLeft ? " has left: " : " was lost: ", reason));
  change(peer_name, peer, state, std::string(reason));
}

bool Switchboard::is_linked(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  return find(peer)->session->linked();
}

bool Switchboard::is_quiet(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  return find(peer)->session->silence(clock_.now()) > 2 * kBeat;
}

std::optional<Frame> Switchboard::next_frame(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  return find(peer)->session->next_frame(clock_.now());
}

void Switchboard::heard(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  find(peer)->session->heard(clock_.now());
}

Result<std::span<std::byte>> Switchboard::receive_into(const std::string& peer, std::size_t lane,
                                                       const wire::Chunk& chunk, std::size_t size) {
  const std::lock_guard lock(mutex_);
  return find(peer)->session->receive_into(lane, chunk, size);
}

Status Switchboard::chunk_received(const std::string& peer_name, std::size_t lane, std::size_t size) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  Status received = peer.session->chunk_received(lane, size, clock_.now());
  collect(peer_name, peer);
  return received;
}

Status Switchboard::message_received(const std::string& peer_name, std::size_t lane, const wire::Chunk& chunk,
                                     wire::Message message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  Status received = peer.session->message_received(lane, chunk, std::move(message), clock_.now());
  collect(peer_name, peer);
  return received;
}

Status Switchboard::acknowledged(const std::string& peer_name, std::size_t lane, const wire::Acknowledge& acknowledge) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(peer_name);
  Status taken = peer.session->acknowledged(lane, acknowledge);
  collect(peer_name, peer);
  notify_progressed_ = true;
  return taken;
}

void Switchboard::beat(const std::string& peer, const wire::Heartbeat& heartbeat) {
  const std::lock_guard lock(mutex_);
  find(peer)->session->beat(heartbeat, clock_.now());
}

void Switchboard::count_bytes(const std::string& peer, std::uint64_t sent, std::uint64_t received) {
  const std::lock_guard lock(mutex_);
  PeerStatistics& past = find(peer)->past;
  past.bytes_sent += sent;
  past.bytes_received += received;
}

std::vector<std::string> Switchboard::look() {
  pool_.trim(clock_.now());
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent;
  for (auto& [name, peer] : peers_) {
    const Session::Verdict verdict = peer.session->look(clock_.now());
    if (verdict.lost) {
      const std::string reason = text(verdict.reason, peer.reason.empty() ? "" : "; ", peer.reason);
      begin_anew(name, peer, options_.new_session_id(), unavailable(name, " was lost: ", reason));
      change(name, peer, PeerState::kLost, reason);
    } else if (peer.session->linked()) {
      change(name, peer, verdict.slow ? PeerState::kSlow : PeerState::kUp, verdict.reason);
    }
    if (verdict.silent) silent.push_back(name);
  }
  return silent;
}

TimePoint Switchboard::next_deadline(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  return find(peer)->session->next_deadline();
}

void Switchboard::settle() {
  std::unique_lock lock(mutex_);
  std::array<bool, kChannels> arrived{};
  for (std::size_t i = 0; i < kChannels; ++i) arrived[i] = std::exchange(inboxes_[i].notify, false);
  const bool progressed = std::exchange(notify_progressed_, false);
  const bool settles = !finished_.empty() && !settling_;  // whoever is at it goes on until nothing is left
  if (settles) settling_ = std::this_thread::get_id();
  lock.unlock();
  // Without the lock, since those who are woken want it first.
  for (std::size_t i = 0; i < kChannels; ++i) {
    if (arrived[i]) inboxes_[i].arrived.notify_all();
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
  settling_.reset();
  settled_.notify_all();
}

}  // namespace ravnest::transport
