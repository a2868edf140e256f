#include "ravnest/transport/tcp/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/transport/greeting.h"

namespace ravnest::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Tokens of epoll that are no connections.
constexpr std::uint64_t kWakeup = 0;
constexpr std::uint64_t kListener = 1;
constexpr std::uint64_t kDialler = 2;
constexpr std::uint64_t kProbes = 3;
constexpr std::uint64_t kFirstConnection = 16;

constexpr Duration kGreetingTime = seconds(10);
constexpr Duration kClosingTime = seconds(2);
constexpr Duration kFirstBackoff = milliseconds(20);
constexpr Duration kLastBackoff = seconds(1);
// The side whose dialling does not win lets the other one try first.
constexpr Duration kCourtesy = milliseconds(50);
constexpr Duration kLookEvery = milliseconds(100);
constexpr std::size_t kMostUnwritten = 512 << 10;
constexpr std::uint64_t kReadTurn = 1 << 20;
constexpr int kAcceptTurn = 64;
// What a sending thread writes itself; more is left to the network's thread.
constexpr std::uint64_t kShortMessage = 128 << 10;
constexpr int kFramesHere = 4;

void control(const Descriptor& epoll, int operation, int descriptor, std::uint64_t token, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  ::epoll_ctl(epoll.number(), operation, descriptor, &event);
}

void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Loop::Loop(const Options& options, std::optional<TlsContext> tls, Listener listener, Switchboard& board)
    : options_(options),
      tls_(std::move(tls)),
      board_(board),
      listener_(std::move(listener)),
      probes_(options, tls_ ? &*tls_ : nullptr),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
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
  control(epoll_, EPOLL_CTL_ADD, wakeup_.number(), kWakeup, EPOLLIN);
  control(epoll_, EPOLL_CTL_ADD, listener_.descriptor(), kListener, EPOLLIN);
  control(epoll_, EPOLL_CTL_ADD, dialler_.ready(), kDialler, EPOLLIN);
  control(epoll_, EPOLL_CTL_ADD, probes_.ready(), kProbes, EPOLLIN);
  thread_ = std::thread([this] {
    block_signals();
    run();
  });
}

Loop::~Loop() {
  ending_ = true;
  (void)::eventfd_write(wakeup_.number(), 1);
  if (thread_.joinable()) thread_.join();
}

void Loop::wake() {
  if (!awake_.exchange(true)) (void)::eventfd_write(wakeup_.number(), 1);
}

void Loop::wake(const std::string& peer, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kShortMessage || !write_here(peer)) wake();
}

// Writes what there is for the peer; false where the network's thread has to go on.
bool Loop::write_here(const std::string& peer) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(open_mutex_);
    const auto found = open_.find(peer);
    if (found == open_.end()) return true;  // it starts with what there is when it opens
    connection = found->second;
  }
  const std::unique_lock lock(connection->in_use, std::try_to_lock);
  if (!lock || connection->phase != Phase::kOpen) return false;
  if (connection->writer.pending_bytes() > 0) return true;  // watched for room already
  // A failure shows to the network's thread, too.
  const auto done = pump(*connection, kFramesHere);
  return done.ok() && *done;
}

void Loop::say_goodbye(TimePoint deadline) {
  goodbye_until_ = deadline;
  (void)::eventfd_write(wakeup_.number(), 1);
  if (thread_.joinable()) thread_.join();
}

void Loop::run() {
  while (!ending_) {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), timeout_ms());
    for (int i = 0; i < count; ++i) handle(events[static_cast<std::size_t>(i)].data.u64);
    for (const std::uint64_t id : std::exchange(unread_, {})) {
      if (Connection* connection = find(id)) advance(*connection);
    }
    for (auto& [name, line] : lines_) {
      Connection* connection = line.linked ? find(line.connection) : nullptr;
      if (connection == nullptr) continue;
      pump_or_drop(*connection);
    }
    const TimePoint now = clock_.now();
    if (now >= look_at_) judge(now);
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
    const std::lock_guard lock(connection.in_use);
    pumped = pump(connection).status();
  }
  if (!pumped.ok()) drop(connection.id, pumped.message());
}

int Loop::timeout_ms() const {
  if (!unread_.empty()) return 0;
  const TimePoint now = clock_.now();
  TimePoint next = std::min(now + kBeat, goodbye_until_.load());
  for (const auto& [name, line] : lines_) {
    if (line.connection == 0 && !line.dialling) next = std::min(next, line.retry_at);
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
    case kWakeup: {
      eventfd_t ignored = 0;
      (void)::eventfd_read(wakeup_.number(), &ignored);
      awake_ = false;
      return;
    }
    case kListener: accept(); return;
    case kDialler: take_dialled(); return;
    case kProbes:
      for (ProbeService::Answer& answer : probes_.take()) {
        Connection* connection = find(answer.connection);
        if (connection == nullptr || connection->phase != Phase::kProbe) continue;
        connection->writer.add(wire::FrameKind::kProbeAnswer, 0, wire::encode(answer.answer));
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
      complain(text("cannot take a connection: ", socket.status().message()));
      control(epoll_, EPOLL_CTL_DEL, listener_.descriptor(), kListener, 0);
      listening_ = false;
      accept_again_ = clock_.now() + milliseconds(100);
    }
    return;
  }
}

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
    complain(stream.status().message());
    return;
  }
  const std::uint64_t id = next_id_++;
  auto& connection = connections_[id];
  connection = std::make_shared<Connection>(id, std::move(stream).value(), side, clock_.now() + kGreetingTime);
  connection->peer = peer;
  connection->watched = EPOLLIN;
  control(epoll_, EPOLL_CTL_ADD, connection->stream.descriptor(), id, EPOLLIN);
  if (side == Side::kDialled) lines_[peer].connection = id;
  advance(*connection);
}

void Loop::take_dialled() {
  for (Dialled& dialled : dialler_.take()) {
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
    if (line.connection != 0 || line.dialling || now < line.retry_at) continue;
    line.dialling = true;
    dialler_.dial(name, line.address);
  }
}

void Loop::retry_later(Line& line) {
  const double share = std::uniform_real_distribution(0.8, 1.2)(random_);
  line.retry_at = clock_.now() + std::chrono::duration_cast<Duration>(line.backoff * share);
  line.backoff = std::min(2 * line.backoff, kLastBackoff);
}

void Loop::expire(TimePoint now) {
  if (!listening_ && now >= accept_again_) {
    control(epoll_, EPOLL_CTL_ADD, listener_.descriptor(), kListener, EPOLLIN);
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

void Loop::judge(TimePoint now) {
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
        const std::lock_guard lock(connection->in_use);
        close_with(*connection, wire::Farewell::kClosing, text(options_.name, " closed"));
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
    const std::lock_guard lock(open_mutex_);
    if (const auto open = open_.find(connection->peer); open != open_.end() && open->second == connection)
      open_.erase(open);
  }
  const std::lock_guard lock(connection->in_use);
  connection->phase = Phase::kClosing;
  count(*connection);
  control(epoll_, EPOLL_CTL_DEL, connection->stream.descriptor(), id, 0);
  const auto line = lines_.find(connection->peer);
  if (line == lines_.end() || line->second.connection != id) return;
  line->second.connection = 0;
  if (std::exchange(line->second.linked, false)) {
    board_.unlinked(connection->peer, reason);
  } else {
    board_.note(connection->peer, std::string(reason));
  }
  retry_later(line->second);
}

// Strangers must not be able to fill the log.
void Loop::complain(std::string_view what) {
  const TimePoint now = clock_.now();
  if (now < complain_at_) {
    ++unsaid_;
    return;
  }
  complain_at_ = now + seconds(1);
  options_.log.info(what, unsaid_ > 0 ? text(" (and ", unsaid_, " more like this)") : "");
  unsaid_ = 0;
}

// -- one connection

void Loop::advance(Connection& connection) {
  const std::uint64_t id = connection.id;
  std::unique_lock lock(connection.in_use);
  Status status = go_on(connection);
  if (status.ok()) {
    lock.unlock();
    board_.settle();  // now, and not at the turn's end: someone may wait for what has come
    return;
  }
  if (status.code() == Code::kCorrupt && connection.phase == Phase::kOpen) {
    connection.writer.add(wire::FrameKind::kGoodbye, 0,
                          wire::encode(wire::Goodbye{wire::Farewell::kBroken, status.message()}));
    (void)connection.writer.flush(connection.stream);
  }
  lock.unlock();
  // One that only looked whether someone is there is not worth a line.
  if (connection.peer.empty() && status.code() != Code::kUnavailable) {
    complain(text("refused ", connection.stream.socket().peer(), ": ", status.message()));
  }
  drop(id, status.message());
}

Status Loop::go_on(Connection& connection) {
  if (connection.phase == Phase::kHandshake) {
    if (Status shaken = handshake(connection); !shaken.ok()) return shaken;
  }
  if (connection.phase != Phase::kHandshake) {
    if (Status taken = read(connection); !taken.ok()) return taken;
  }
  if (connection.phase == Phase::kOpen) return pump(connection).status();
  const auto flushed = connection.writer.flush(connection.stream);
  if (!flushed.ok()) return flushed.status();
  watch(connection, connection.stream.wants_write());
  if (*flushed && connection.phase == Phase::kClosing && !std::exchange(connection.finished_writing, true)) {
    connection.stream.finish_writing();
  }
  return {};
}

Status Loop::handshake(Connection& connection) {
  const auto done = connection.stream.handshake();
  if (!done.ok()) return done.status();
  if (!*done) return {};
  connection.phase = Phase::kGreeting;
  if (connection.side == Side::kDialled) {
    const std::string certified = connection.stream.certified_name();
    if (tls_ && certified != connection.peer) {
      return invalid(certified, " answers where ", connection.peer, " should be: check the addresses in the plan");
    }
    send_hello(connection);
  }
  return {};
}

void Loop::send_hello(Connection& connection) {
  wire::Hello hello;
  hello.software = options_.software;
  hello.plan = options_.plan;
  board_.describe(connection.peer, hello);
  connection.session = hello.session;
  connection.writer.add(wire::FrameKind::kHello, 0, wire::encode(hello));
}

Status Loop::read(Connection& connection) {
  const std::uint64_t before = connection.reader.bytes_read();
  for (;;) {
    if (connection.reader.bytes_read() - before >= kReadTurn) {
      unread_.push_back(connection.id);
      break;
    }
    const auto step = connection.reader.next(connection.stream);
    if (!step.ok()) return step.status();
    if (*step == FrameReader::Step::kNothing) break;
    if (Status taken = take(connection, *step); !taken.ok()) return taken;
  }
  if (connection.phase == Phase::kOpen && connection.reader.bytes_read() > before) board_.heard(connection.peer);
  count(connection);
  return {};
}

Status Loop::take(Connection& connection, FrameReader::Step step) {
  FrameReader& reader = connection.reader;
  if (connection.phase == Phase::kClosing) {
    // Until the other side closes too; what it still says is of no interest, but has to go somewhere.
    if (step == FrameReader::Step::kChunk) return unavailable("closed");
    return {};
  }
  if (step == FrameReader::Step::kFrame) return on_frame(connection);
  if (connection.phase != Phase::kOpen) return corrupt("a message came before the hello");
  const std::size_t lane = reader.header().lane;
  if (step == FrameReader::Step::kChunk) {
    const auto into = board_.receive_into(connection.peer, lane, reader.chunk(), reader.chunk_size());
    // What does not fit into memory would come again.
    if (into.status().code() == Code::kUnavailable) board_.give_up(connection.peer, into.status().message());
    if (!into.ok()) return into.status();
    reader.receive_into(*into);
    return {};
  }
  Status received = board_.chunk_received(connection.peer, lane, reader.chunk_size());
  if (!received.ok()) {
    // It would come again, and be wrong again.
    board_.give_up(connection.peer, text("it sent what can not be read: ", received.message()));
  }
  return received;
}

Status Loop::on_frame(Connection& connection) {
  const wire::FrameHeader& header = connection.reader.header();
  if (header.kind == wire::FrameKind::kGoodbye) return on_goodbye(connection);
  if (connection.phase == Phase::kGreeting) {
    if (header.kind != wire::FrameKind::kHello) return corrupt("the first frame is no hello");
    return on_hello(connection);
  }
  if (connection.phase == Phase::kProbe) {
    connection.deadline = clock_.now() + kGreetingTime;
    return probes_.answer(connection);
  }
  const ByteSpan body = connection.reader.body();
  if (header.kind == wire::FrameKind::kAcknowledge) {
    const auto acknowledge = wire::decode_acknowledge(body);
    return acknowledge.ok() ? board_.acknowledged(connection.peer, header.lane, *acknowledge) : acknowledge.status();
  }
  if (header.kind == wire::FrameKind::kHeartbeat) {
    const auto heartbeat = wire::decode_heartbeat(body);
    if (heartbeat.ok()) board_.beat(connection.peer, *heartbeat);
    return heartbeat.status();
  }
  return corrupt("a frame of kind ", static_cast<int>(header.kind), " has no place here");
}

Status Loop::on_hello(Connection& connection) {
  const auto hello = wire::decode_hello(connection.reader.body());
  const bool accepted = connection.side == Side::kAccepted;
  const std::string certified = connection.stream.certified_name();
  Status fits = hello.status();
  if (hello.ok()) {
    fits = check_greeting({options_.name, options_.plan, accepted ? "" : connection.peer, certified}, *hello);
  }
  const bool wants_session = fits.ok() && hello->purpose == wire::Purpose::kSession;
  if (wants_session && !options_.probes_only && !board_.knows(hello->from)) {
    fits = invalid(hello->from, " is not a peer of ", options_.name);
  }
  if (!fits.ok()) {
    const std::string reason = fits.code() == Code::kUnsupported
                                   ? text(certified.empty() ? "another node" : certified, " and ", options_.name,
                                          " do not understand each other: ", fits.message())
                                   : fits.message();
    if (!accepted) return invalid(reason);
    complain(text("refused ", connection.stream.socket().peer(), ": ", reason));
    close_with(connection, fits.code() == Code::kUnsupported ? wire::Farewell::kVersion : wire::Farewell::kRefused,
               reason);
    return {};
  }
  if (hello->purpose == wire::Purpose::kProbe) {
    const auto is_probe = [](const auto& entry) { return entry.second->phase == Phase::kProbe; };
    if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_probe)) >= kMostProbes) {
      close_with(connection, wire::Farewell::kBusy, text("too many ask ", options_.name, " at once; ask again"));
      return {};
    }
    connection.phase = Phase::kProbe;
    connection.asker = hello->from;
    if (options_.on_asked) options_.on_asked(hello->from);
    wire::Hello reply;
    reply.software = options_.software;
    reply.plan = options_.plan;
    reply.from = options_.name;
    reply.to = hello->from;
    reply.purpose = wire::Purpose::kProbe;
    connection.writer.add(wire::FrameKind::kHello, 0, wire::encode(reply));
    return {};
  }
  if (options_.probes_only) {
    close_with(connection, wire::Farewell::kBusy, text(options_.name, " is only being examined"));
    return {};
  }
  return accepted ? admit(connection, *hello) : link(connection, *hello);
}

// A peer has dialled. There is room for one connection to each.
Status Loop::admit(Connection& connection, const wire::Hello& hello) {
  Line& line = lines_[hello.from];
  if (Connection* other = find(line.connection)) {
    // The peer dials only where it has no connection, so one that is linked here is dead, unless both dialled at the
    // same time: then the preferred side's own one stays.
    const bool other_stays = line.preferred && other->side == Side::kDialled &&
                             (line.linked ? !board_.is_quiet(hello.from) : other->phase == Phase::kGreeting);
    if (other_stays) {
      close_with(connection, wire::Farewell::kBusy, "there is another connection between the two");
      return {};
    }
    drop(other->id, "the peer has made a new connection");
  }
  connection.peer = hello.from;
  line.connection = connection.id;
  send_hello(connection);
  return link(connection, hello);
}

Status Loop::link(Connection& connection, const wire::Hello& hello) {
  if (Status linked = board_.linked(connection.peer, hello, connection.session); !linked.ok()) {
    if (linked.code() == Code::kCorrupt) board_.give_up(connection.peer, linked.message());
    return linked;
  }
  Line& line = lines_[connection.peer];
  line.linked = true;
  line.backoff = kFirstBackoff;
  connection.phase = Phase::kOpen;
  const std::lock_guard lock(open_mutex_);
  open_[connection.peer] = connections_.at(connection.id);
  return {};
}

Status Loop::on_goodbye(Connection& connection) {
  const auto goodbye = wire::decode_goodbye(connection.reader.body());
  if (!goodbye.ok()) return goodbye.status();
  const std::string reason = printable(goodbye->reason);
  if (goodbye->farewell == wire::Farewell::kClosing && connection.phase == Phase::kOpen) {
    lines_[connection.peer].linked = false;
    board_.left(connection.peer, reason);
  }
  return unavailable(reason);
}

// Whether there is nothing left to do before something happens.
Result<bool> Loop::pump(Connection& connection, int most_frames) {
  int frames = 0;
  for (;;) {
    bool more = true;
    while (connection.writer.pending_bytes() < kMostUnwritten && frames < most_frames) {
      auto frame = board_.next_frame(connection.peer);
      more = frame.has_value();
      if (!more) break;
      ++frames;
      queue(connection, std::move(*frame));
    }
    const auto flushed = connection.writer.flush(connection.stream);
    if (!flushed.ok()) return flushed.status();
    watch(connection, !*flushed);
    count(connection);
    if (!*flushed || !more) return true;
    if (frames >= most_frames) return false;
  }
}

void Loop::queue(Connection& connection, Frame frame) {
  FrameWriter& writer = connection.writer;
  if (auto* chunk = std::get_if<ChunkFrame>(&frame)) {
    writer.add(wire::FrameKind::kChunk, static_cast<std::uint8_t>(chunk->lane), wire::encode(chunk->chunk),
               std::move(chunk->data));
  } else if (const auto* acknowledge = std::get_if<AcknowledgeFrame>(&frame)) {
    writer.add(wire::FrameKind::kAcknowledge, static_cast<std::uint8_t>(acknowledge->lane),
               wire::encode(acknowledge->acknowledge));
  } else {
    writer.add(wire::FrameKind::kHeartbeat, 0, wire::encode(std::get<wire::Heartbeat>(frame)));
  }
}

void Loop::close_with(Connection& connection, wire::Farewell farewell, std::string_view reason) {
  constexpr std::size_t kMostReason = 2000;
  connection.writer.add(wire::FrameKind::kGoodbye, 0,
                        wire::encode(wire::Goodbye{farewell, std::string(reason.substr(0, kMostReason))}));
  connection.phase = Phase::kClosing;
  connection.deadline = clock_.now() + kClosingTime;
  if (const auto flushed = connection.writer.flush(connection.stream); flushed.ok()) {
    watch(connection, !*flushed);
    if (*flushed && !std::exchange(connection.finished_writing, true)) connection.stream.finish_writing();
  }
}

void Loop::watch(Connection& connection, bool write) {
  connection.full = write;
  const std::uint32_t wanted = write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (connection.watched == wanted) return;
  connection.watched = wanted;
  control(epoll_, EPOLL_CTL_MOD, connection.stream.descriptor(), connection.id, wanted);
}

void Loop::count(Connection& connection) {
  const std::uint64_t in = connection.reader.bytes_read();
  const std::uint64_t out = connection.writer.bytes_written();
  if (!board_.knows(connection.peer)) return;
  board_.count_bytes(connection.peer, out - connection.counted_out, in - connection.counted_in);
  connection.counted_in = in;
  connection.counted_out = out;
}

}  // namespace ravnest::transport::tcp
