// What the network's thread does on one connection: handshake, greeting, frames in and out.
#include <chrono>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/transport/greeting.h"
#include "ravnest/transport/tcp/loop.h"

namespace ravnest::transport::tcp {
namespace {

constexpr Duration kClosingTime = std::chrono::seconds(2);
constexpr std::size_t kMostUnwritten = 512 << 10;
constexpr std::uint64_t kReadTurn = 4 << 20;
// Between two lines about a second process of a node, which comes again and again.
constexpr Duration kSayTwiceEvery = std::chrono::seconds(30);

}  // namespace

void Loop::advance(Connection& connection) {
  const std::uint64_t id = connection.id;
  MutexLock lock(connection.in_use);
  Status status = go_on(connection);
  if (status.ok()) {
    lock.unlock();
    board_.settle();  // now, and not at the turn's end: someone may wait for what has come
    return;
  }
  if (status.code() == Code::kCorrupt && connection.phase == Phase::kOpen) {
    connection.writer.add(wire::FrameKind::kGoodbye, 0,
                          wire::encode(wire::Goodbye{wire::GoodbyeCode::kBroken, status.message()}));
    (void)connection.writer.flush(connection.stream);
  }
  lock.unlock();
  // One that only looked whether someone is there is not worth a line.
  if (connection.peer.empty() && status.code() != Code::kUnavailable) {
    limited_log_.say(clock_.now(), text("refused ", connection.stream.socket().peer(), ": ", status.message()));
    if (connection.phase == Phase::kHandshake)
      (void)turn_away({.name = "", .from = connection.stream.socket().peer(), .first = "", .reason = status.message()});
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
    // Others have their turn, too, however fast this one sends.
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
    board_.give_up(connection.peer, text("it sent what cannot be read: ", received.message()));
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
    limited_log_.say(clock_.now(), text("refused ", connection.stream.socket().peer(), ": ", reason));
    const bool other_version = fits.code() == Code::kUnsupported;
    const bool other_plan = hello.ok() && hello->plan != options_.plan;
    TurnedAway who{.why = other_version ? TurnedAway::Why::kOtherVersion
                          : other_plan  ? TurnedAway::Why::kOtherPlan
                                        : TurnedAway::Why::kNotAPeer,
                   .name = certified,
                   .from = connection.stream.socket().peer(),
                   .first = "",
                   .reason = reason};
    if (certified.empty() && hello.ok()) who.name = printable(hello->from);
    refuse(connection, other_version ? wire::GoodbyeCode::kVersion : wire::GoodbyeCode::kRefused, std::move(who));
    return {};
  }
  if (hello->purpose == wire::Purpose::kProbe) {
    const auto is_probe = [](const auto& entry) { return entry.second->phase == Phase::kProbe; };
    if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_probe)) >= kMostProbes) {
      close_with(connection, wire::GoodbyeCode::kBusy, text("too many ask ", options_.name, " at once; ask again"));
      return {};
    }
    connection.phase = Phase::kProbe;
    connection.asker = hello->from;
    if (options_.on_asked) options_.on_asked(printable(hello->from));
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
    close_with(connection, wire::GoodbyeCode::kBusy, text(options_.name, " is only being examined"));
    return {};
  }
  return accepted ? admit(connection, *hello) : link(connection, *hello);
}

// A peer has dialled. There is room for one connection to each.
Status Loop::admit(Connection& connection, const wire::Hello& hello) {
  Line& line = lines_[hello.from];
  if (is_second(connection, hello)) return {};
  if (Connection* other = find(line.connection)) {
    // The peer dials only where it has no connection, so one that is linked here is dead, unless both dialled at the
    // same time: then the preferred side's own one stays.
    const bool other_stays = line.preferred && other->side == Side::kDialled &&
                             (line.linked ? !board_.is_quiet(hello.from) : other->phase == Phase::kGreeting);
    if (other_stays) {
      close_with(connection, wire::GoodbyeCode::kBusy, "there is another connection between the two");
      return {};
    }
    drop(other->id, "the peer has made a new connection");
  }
  connection.peer = hello.from;
  line.connection = connection.id;
  send_hello(connection);
  return link(connection, hello);
}

// Turns away a second process with the name of a peer that is connected and alive.
bool Loop::is_second(Connection& connection, const wire::Hello& hello) {
  if (board_.admits(hello.from, hello).ok()) return false;
  Line& line = lines_[hello.from];
  // The end of the first one's connection may be there and not read yet: then this is a restart.
  if (Connection* first = find(line.connection)) advance(*first);
  const Status admitted = board_.admits(hello.from, hello);
  if (admitted.ok()) return false;
  if (const TimePoint now = clock_.now(); now >= line.say_twice_at) {
    line.say_twice_at = now + kSayTwiceEvery;
    const Connection* first = find(line.connection);
    options_.log.warning("refused a second ", hello.from, ", from ", connection.stream.socket().peer(),
                         ": the first one", first ? text(", at ", first->stream.socket().peer(), ",") : "",
                         " is connected and goes on");
  }
  const Connection* first = find(line.connection);
  refuse(connection, wire::GoodbyeCode::kBusy,
         {.why = TurnedAway::Why::kSecond,
          .name = hello.from,
          .from = connection.stream.socket().peer(),
          .first = first ? first->stream.socket().peer() : "",
          .reason = admitted.message()});
  return true;
}

// Says no, in the words of this node's owner where it has some: then the other side knows that asking again is in vain.
void Loop::refuse(Connection& connection, wire::GoodbyeCode code, TurnedAway who) {
  const std::string usual = who.reason;
  const std::string words = turn_away(std::move(who));
  close_with(connection, words.empty() ? code : wire::GoodbyeCode::kRefused, words.empty() ? usual : words);
}

std::string Loop::turn_away(TurnedAway who) {
  return options_.on_turned_away ? options_.on_turned_away(who) : std::string();
}

Status Loop::link(Connection& connection, const wire::Hello& hello) {
  if (Status linked = board_.linked(connection.peer, hello, connection.session); !linked.ok()) {
    if (linked.code() == Code::kCorrupt) board_.give_up(connection.peer, linked.message());
    return linked;
  }
  // TLS authenticates every byte already; a checksum of our own would find nothing that it lets through.
  if (tls_) {
    connection.reader.trust_stream();
    connection.writer.trust_stream();
  }
  Line& line = lines_[connection.peer];
  line.linked = true;
  line.backoff = kFirstBackoff;
  connection.phase = Phase::kOpen;
  const MutexLock lock(open_mutex_);
  open_[connection.peer] = connections_.at(connection.id);
  return {};
}

Status Loop::on_goodbye(Connection& connection) {
  const auto goodbye = wire::decode_goodbye(connection.reader.body());
  if (!goodbye.ok()) return goodbye.status();
  const std::string reason = printable(goodbye->reason);
  connection.refused = goodbye->code == wire::GoodbyeCode::kRefused;
  if (goodbye->code == wire::GoodbyeCode::kClosing && connection.phase == Phase::kOpen) {
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

void Loop::close_with(Connection& connection, wire::GoodbyeCode code, std::string_view reason) {
  constexpr std::size_t kMostReason = 2000;
  connection.writer.add(wire::FrameKind::kGoodbye, 0,
                        wire::encode(wire::Goodbye{code, std::string(reason.substr(0, kMostReason))}));
  connection.phase = Phase::kClosing;
  connection.deadline = clock_.now() + kClosingTime;
  if (const auto flushed = connection.writer.flush(connection.stream); flushed.ok()) {
    watch(connection, !*flushed);
    if (*flushed && !std::exchange(connection.finished_writing, true)) connection.stream.finish_writing();
  }
}

void Loop::watch(Connection& connection, bool write) {
  if (connection.full.exchange(write) != write) poller_.watch(connection.stream.descriptor(), connection.id, write);
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
