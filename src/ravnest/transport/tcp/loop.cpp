#include "ravnest/transport/tcp/loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ravnest::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Tokens of epoll that are no connections.
constexpr std::uint64_t kWakeup = 0;
constexpr std::uint64_t kListener = 1;
constexpr std::uint64_t kDiallings = 2;
constexpr std::uint64_t kProbes = 3;
constexpr std::uint64_t kFirstConnection = 16;

constexpr Duration kLastBackoff = seconds(1);
constexpr Duration kDiallingTime = seconds(10);
// The side whose dialling does not win lets the other one try first.
constexpr Duration kCourtesy = milliseconds(50);
constexpr Duration kLookEvery = milliseconds(100);
constexpr int kAcceptTurn = 64;
// What a sending thread writes itself; more is left to the network's thread.
constexpr std::uint64_t kShortMessage = 128 << 10;
constexpr int kFramesHere = 4;

// What kept the connection from being used, for those who have to decide.
PeerTrouble trouble_of(const Connection& connection) {
  if (connection.refused) return PeerTrouble::kRefused;
  switch (connection.stream.trouble()) {
    case TlsTrouble::kOtherPlan: return PeerTrouble::kOtherPlan;
    case TlsTrouble::kNotTls: return PeerTrouble::kOtherProgram;
    default: return PeerTrouble::kNone;
  }
}

}  // namespace

Loop::Loop(const Options& options, std::optional<TlsContext> tls, Listener listener, Switchboard& board)
    : options_(options),
      tls_(std::move(tls)),
      board_(board),
      listener_(std::move(listener)),
      probes_(options, tls_ ? &*tls_ : nullptr),
      limited_log_(options.log),
      next_id_(kFirstConnection),
      random_(std::random_device{}()) {
  const TimePoint now = clock_.now();
  for (const Peer& peer : options_.peers) {
    if (options_.probes_only) break;
    const bool preferred = options_.name < peer.name;
    lines_[peer.name] = {.address = dialled(peer.address),
                         .preferred = preferred,
                         .retry_at = preferred ? now : now + kCourtesy,
                         .backoff = kFirstBackoff};
  }
  poller_.add(wakeup_.number(), kWakeup);
  poller_.add(listener_.descriptor(), kListener);
  poller_.add(diallings_.ready(), kDiallings);
  poller_.add(probes_.ready(), kProbes);
  thread_ = std::thread([this] {
    block_signals();
    run();
  });
}

Loop::~Loop() {
  ending_ = true;
  wakeup_.raise();
  if (thread_.joinable()) thread_.join();
}

void Loop::wake() {
  if (!awake_.exchange(true)) wakeup_.raise();
}

void Loop::wake(const std::string& peer, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kShortMessage || !write_here(peer)) wake();
}

void Loop::meet(const std::string& peer, const Address& address) {
  {
    const MutexLock lock(met_mutex_);
    met_[peer] = dialled(address);
  }
  wakeup_.raise();
}

void Loop::take_met() {
  std::map<std::string, Address> met;
  {
    const MutexLock lock(met_mutex_);
    met.swap(met_);
  }
  for (auto& [peer, address] : met) {
    Line& line = lines_[peer];
    line.address = std::move(address);
    line.backoff = kFirstBackoff;
    line.retry_at = clock_.now() + (line.preferred ? Duration::zero() : kCourtesy);
  }
}

std::string Loop::host_of(const std::string& peer) {
  const MutexLock lock(open_mutex_);
  const auto found = open_.find(peer);
  return found == open_.end() ? "" : found->second->stream.socket().peer_host();
}

// Writes what there is for the peer; false where the network's thread has to go on. It saves a short message the way
// through another thread, which would double its round trip.
bool Loop::write_here(const std::string& peer) {
  std::shared_ptr<Connection> connection;
  {
    const MutexLock lock(open_mutex_);
    const auto found = open_.find(peer);
    if (found == open_.end()) return true;  // it starts with what there is when it opens
    connection = found->second;
  }
  // Never waits: whoever has the connection may be reading into it for long, and sends what it finds queued afterwards.
  if (!connection->in_use.try_lock()) return false;
  const MutexLock lock(connection->in_use, std::adopt_lock);
  if (connection->phase != Phase::kOpen) return false;
  if (connection->writer.pending_bytes() > 0) return true;  // watched for room already
  // A failure shows to the network's thread, too.
  const auto done = pump(*connection, kFramesHere);
  return done.ok() && *done;
}

void Loop::say_goodbye(TimePoint deadline) {
  goodbye_until_ = deadline;
  wakeup_.raise();
  if (thread_.joinable()) thread_.join();
}

void Loop::run() {
  while (!ending_) {
    for (const std::uint64_t token : poller_.wait(timeout_ms())) handle(token);
    for (const std::uint64_t id : std::exchange(unread_, {})) {
      if (Connection* connection = find(id)) advance(*connection);
    }
    for (auto& [name, line] : lines_) {
      Connection* connection = line.linked ? find(line.connection) : nullptr;
      if (connection == nullptr) continue;
      pump_or_drop(*connection);
    }
    take_met();
    const TimePoint now = clock_.now();
    if (now >= look_at_) check_liveness(now);
    expire(now);
    if (goodbye_until_.load() != TimePoint::max() && !take_leave(now)) break;
    dial_due(now);
    board_.settle();
  }
  while (!connections_.empty()) drop(connections_.begin()->first, "this node ended");
  board_.settle();
}

void Loop::pump_or_drop(Connection& connection) {
  Status pumped;
  {
    const MutexLock lock(connection.in_use);
    pumped = pump(connection).status();
  }
  if (!pumped.ok()) drop(connection.id, pumped.message());
}

int Loop::timeout_ms() const {
  if (!unread_.empty()) return 0;
  const TimePoint now = clock_.now();
  TimePoint next = std::min(now + kBeat, goodbye_until_.load());
  for (const auto& [name, line] : lines_) {
    if (line.connection == 0 && !line.dialling && line.address.port != 0) next = std::min(next, line.retry_at);
    // What a full connection has to say is due when there is room: asking before would be asking all the time.
    const auto connection = line.linked ? connections_.find(line.connection) : connections_.end();
    const bool is_full = connection != connections_.end() && connection->second->full;
    if (!is_full) next = std::min(next, board_.next_deadline(name));
  }
  if (!listening_) next = std::min(next, accept_again_);
  for (const auto& [id, connection] : connections_) {
    if (connection->phase != Phase::kOpen) next = std::min(next, connection->deadline);
  }
  // Rounded up: waking a moment too early would mean to ask again at once.
  const auto left = std::chrono::ceil<milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

void Loop::handle(std::uint64_t token) {
  switch (token) {
    case kWakeup:
      wakeup_.take();
      awake_ = false;
      return;
    case kListener: accept(); return;
    case kDiallings: take_dialled(); return;
    case kProbes:
      for (ProbeService::Answer& answer : probes_.take()) {
        Connection* connection = find(answer.connection);
        if (connection == nullptr || connection->phase != Phase::kProbe) continue;
        {
          const MutexLock lock(connection->in_use);
          connection->writer.add(wire::FrameKind::kProbeAnswer, 0, wire::encode(answer.answer));
        }
        advance(*connection);
      }
      return;
    default:
      if (Connection* connection = find(token)) advance(*connection);
  }
}

Connection* Loop::find(std::uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

// -- connections come and go

void Loop::accept() {
  for (int i = 0; i < kAcceptTurn; ++i) {
    auto socket = listener_.accept({clock_.now(), -1});
    if (socket.ok()) {
      make_room_for_a_stranger();
      add(std::move(socket).value(), Side::kAccepted, "");
      continue;
    }
    if (socket.status().code() != Code::kDeadline) {
      // No descriptors, for instance: those who wait at the port have to wait a little more.
      limited_log_.say(clock_.now(), text("cannot take a connection: ", socket.status().message()));
      poller_.remove(listener_.descriptor());
      listening_ = false;
      accept_again_ = clock_.now() + milliseconds(100);
    }
    return;
  }
}

// Whoever opens connections and says nothing costs others a place, not us our descriptors: the oldest of its kind goes.
void Loop::make_room_for_a_stranger() {
  const auto is_stranger = [](const auto& entry) {
    const Connection& connection = *entry.second;
    return connection.side == Side::kAccepted && connection.peer.empty() && connection.phase != Phase::kProbe;
  };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_stranger)) < kMostStrangers) return;
  drop(std::ranges::find_if(connections_, is_stranger)->first, "too many others did not say who they are");
}

void Loop::add(Socket socket, Side side, const std::string& peer) {
  auto stream = Stream::over(std::move(socket), tls_ ? &*tls_ : nullptr, side);
  if (!stream.ok()) {
    limited_log_.say(clock_.now(), stream.status().message());
    return;
  }
  const std::uint64_t id = next_id_++;
  auto& connection = connections_[id];
  connection = std::make_shared<Connection>(id, std::move(stream).value(), side, clock_.now() + kGreetingTime);
  connection->peer = peer;
  poller_.add(connection->stream.descriptor(), id);
  if (side == Side::kDialled) lines_[peer].connection = id;
  advance(*connection);
}

void Loop::take_dialled() {
  for (Dialled& dialled : diallings_.take()) {
    Line& line = lines_[dialled.peer];
    line.dialling = false;
    if (line.connection != 0) continue;  // the peer was faster
    if (dialled.socket.ok()) {
      add(std::move(dialled.socket).value(), Side::kDialled, dialled.peer);
    } else {
      board_.note(dialled.peer, dialled.socket.status().message());
      retry_later(line);
    }
  }
}

void Loop::dial_due(TimePoint now) {
  if (said_goodbye_) return;
  for (auto& [name, line] : lines_) {
    if (line.connection != 0 || line.dialling || line.address.port == 0 || now < line.retry_at) continue;
    const Status started = diallings_.start([peer = name, address = line.address](int stop) {
      return Dialled{peer, Socket::connect(address, Wait::of(kDiallingTime, stop))};
    });
    line.dialling = started.ok();
    if (started.ok()) continue;
    board_.note(name, started.message());
    retry_later(line);
  }
}

// A little more or less than the backoff: nodes that lost each other at one moment do not all dial at one moment again.
void Loop::retry_later(Line& line) {
  const double share = std::uniform_real_distribution(0.8, 1.2)(random_);
  line.retry_at = clock_.now() + std::chrono::duration_cast<Duration>(line.backoff * share);
  line.backoff = std::min(2 * line.backoff, kLastBackoff);
}

void Loop::expire(TimePoint now) {
  if (!listening_ && now >= accept_again_) {
    poller_.add(listener_.descriptor(), kListener);
    listening_ = true;
  }
  std::vector<std::uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (connection->phase != Phase::kOpen && now >= connection->deadline) late.push_back(id);
  }
  for (const std::uint64_t id : late) {
    drop(id, text("nothing came for ", std::chrono::duration_cast<seconds>(kGreetingTime).count(), " s"));
  }
}

void Loop::check_liveness(TimePoint now) {
  look_at_ = now + kLookEvery;
  for (const std::string& peer : board_.look()) {
    if (const Line& line = lines_[peer]; line.linked) drop(line.connection, "the connection was silent for too long");
  }
}

// Whether there is still something to be said before the end.
bool Loop::take_leave(TimePoint now) {
  if (!std::exchange(said_goodbye_, true)) {
    for (const auto& [name, line] : lines_) {
      if (Connection* connection = line.linked ? find(line.connection) : nullptr) {
        const MutexLock lock(connection->in_use);
        close_with(*connection, wire::GoodbyeCode::kClosing, text(options_.name, " closed"));
      }
    }
  }
  return now < goodbye_until_.load() &&
         std::ranges::any_of(connections_, [](const auto& entry) { return entry.second->phase == Phase::kClosing; });
}

void Loop::drop(std::uint64_t id, std::string_view reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::shared_ptr<Connection> connection = std::move(found->second);
  connections_.erase(found);
  {
    const MutexLock lock(open_mutex_);
    if (const auto open = open_.find(connection->peer); open != open_.end() && open->second == connection)
      open_.erase(open);
  }
  const MutexLock lock(connection->in_use);
  connection->phase = Phase::kClosing;
  count(*connection);
  poller_.remove(connection->stream.descriptor());
  const auto line = lines_.find(connection->peer);
  if (line == lines_.end() || line->second.connection != id) return;
  line->second.connection = 0;
  if (std::exchange(line->second.linked, false)) {
    board_.unlinked(connection->peer, reason);
  } else {
    board_.note(connection->peer, std::string(reason), trouble_of(*connection));
  }
  retry_later(line->second);
}

}  // namespace ravnest::transport::tcp
