#include "ravnest/transport/session.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "ravnest/base/check.h"

namespace ravnest::transport {
namespace {

// How long a report of progress may wait for company.
constexpr Duration kReportDelay = std::chrono::milliseconds(5);
// A message's own cost beside its bytes, so that many empty ones are not for free.
constexpr std::uint64_t kMessageCost = 512;
// After so many chunks of higher lanes, a lower lane that has something gets a turn.
constexpr int kMostOvertaken = 16;
// A peer that takes nothing for this long is slow.
constexpr Duration kBlockedPatience = std::chrono::seconds(2);

std::uint64_t weight_of(std::uint64_t message_size) { return message_size + kMessageCost; }

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::int64_t nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }

// The bytes [offset, offset + size) of the parts.
std::vector<Slice> cut_out(const std::vector<Slice>& parts, std::uint64_t offset, std::uint64_t size) {
  std::vector<Slice> result;
  for (const Slice& part : parts) {
    if (size == 0) break;
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    const std::uint64_t taken = std::min<std::uint64_t>(size, part.size() - offset);
    result.push_back(part.part(offset, taken));
    size -= taken;
    offset = 0;
  }
  return result;
}

}  // namespace

Session::Session(const SessionOptions& options, std::uint64_t id, BufferPool& pool, TimePoint now)
    : options_(options),
      id_(id),
      pool_(pool),
      unlinked_since_(now),
      liveness_(now),
      beat_at_(now),
      looked_(now),
      echo_since_(now) {}

Status Session::enqueue(std::size_t lane, wire::Message message, wire::EncodedMessage encoded, Completion done) {
  if (encoded.size > options_.max_message_bytes) {
    return invalid("a message of ", encoded.size, " bytes is longer than the ", options_.max_message_bytes,
                   " that can be sent at once");
  }
  RAVNEST_CHECK(has_room(lane), "lane ", lane, " has ", lanes_out_[lane].queued_bytes, " bytes queued");
  LaneOut& out = lanes_out_[lane];
  const std::uint64_t size = encoded.size;
  // It stays in the queue until the peer has acknowledged it whole, sent or not: the next connection may have to send
  // it again.
  out.queue.push_back({std::move(message), std::move(encoded), std::move(done), out.weight});
  out.queued_bytes += weight_of(size);
  out.weight += weight_of(size);
  return {};
}

bool Session::all_acknowledged() const {
  return std::ranges::all_of(lanes_out_, [](const LaneOut& out) { return out.queue.empty(); });
}

// -- the connection

void Session::describe(wire::Hello& hello) const {
  hello.session = id_;
  hello.peer_session = peer_id_;
  for (std::size_t lane = 0; lane < wire::kLanes; ++lane) hello.received[lane] = lanes_in_[lane].progress;
}

// A peer that was never met continues any session: there is nothing yet that it could have forgotten.
bool Session::continues(const wire::Hello& hello) const { return peer_id_ == 0 || peer_id_ == hello.session; }

Status Session::link(const wire::Hello& hello, TimePoint now) {
  peer_id_ = hello.session;
  // A peer that has not heard of this session, or knows an earlier one, has received nothing of it.
  const wire::Progress received = hello.peer_session == id_ ? hello.received : wire::Progress{};
  for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
    if (Status confirmed = confirm(lanes_out_[lane], received[lane]); !confirmed.ok()) return confirmed;
    // Sending goes on at the very byte that the peer lacks. What the broken connection still had on its way is lost
    // with it, so nothing can arrive twice.
    LaneOut& out = lanes_out_[lane];
    out.next = received[lane].message;
    out.offset = received[lane].offset;
    out.blocked_since.reset();
    // What is to be reported stays so: the hello was written a while ago, and the application may have taken more
    // since.
  }
  linked_ = true;
  liveness_.restart(now);
  beat_at_ = now;
  echo_ns_ = 0;
  return {};
}

void Session::unlink(TimePoint now) {
  if (!std::exchange(linked_, false)) return;
  unlinked_since_ = now;
  for (LaneOut& out : lanes_out_) out.blocked_since.reset();
}

// -- sending

// The window is looked at where a message begins only. One that has begun must be able to end: the receiver can take
// nothing of it before it is whole, and so would never open the window again.
bool Session::can_send(const LaneOut& out) const {
  RAVNEST_CHECK(out.first <= out.next, "message ", out.next, " is to be sent, and ", out.first, " is the first kept");
  if (out.next >= out.first + out.queue.size()) return false;
  if (out.offset > 0) return true;
  const std::uint64_t before = out.queue[out.next - out.first].weight_before;
  RAVNEST_CHECK(out.peer_consumed <= before, "the peer took ", out.peer_consumed, " of ", before);
  return before - out.peer_consumed < options_.window_bytes;
}

// The first lane that can send, unless a lower one was passed by often enough: a stream of urgent messages slows the
// bulk down, but never stops it.
std::optional<std::size_t> Session::next_lane(TimePoint now) {
  std::optional<std::size_t> next;
  for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
    LaneOut& out = lanes_out_[lane];
    if (can_send(out)) {
      out.blocked_since.reset();
      if (!next || out.overtaken >= kMostOvertaken) next = lane;
    } else {
      out.overtaken = 0;
      if (out.next < out.first + out.queue.size() && !out.blocked_since) out.blocked_since = now;
    }
  }
  return next;
}

ChunkFrame Session::next_chunk(std::size_t lane) {
  for (LaneOut& other : lanes_out_) other.overtaken += can_send(other) ? 1 : 0;
  LaneOut& out = lanes_out_[lane];
  out.overtaken = 0;
  const Unacknowledged& outgoing = out.queue[out.next - out.first];
  const std::uint64_t total = outgoing.encoded.size;
  RAVNEST_CHECK(out.offset < total, "message ", out.next, " of ", total, " bytes was sent up to ", out.offset);
  const std::uint64_t size = std::min<std::uint64_t>(options_.chunk_bytes, total - out.offset);
  ChunkFrame frame{lane, {out.next, total, out.offset}, cut_out(outgoing.encoded.parts, out.offset, size), nullptr};
  // Within one process the message itself is handed over, without its bytes.
  if (size == total) frame.whole = &outgoing.message;
  out.offset += size;
  if (out.offset == total) {
    ++out.next;
    out.offset = 0;
  }
  return frame;
}

std::optional<Frame> Session::next_frame(TimePoint now) {
  if (!linked_) return std::nullopt;
  // A sign of life goes before everything: behind long messages it would come late, and the peer would think this node
  // slow.
  if (now >= beat_at_) {
    beat_at_ = now + kBeat;
    return wire::Heartbeat{nanoseconds(now), echo_ns_, echo_ns_ == 0 ? 0 : (now - echo_since_).count()};
  }
  // A report goes when it is due, or with a chunk that goes anyway.
  const auto lane = next_lane(now);
  for (std::size_t i = 0; i < wire::kLanes; ++i) {
    LaneIn& in = lanes_in_[i];
    if (!in.report_at || (!lane && now < *in.report_at)) continue;
    in.report_at.reset();
    in.unreported = 0;
    return AcknowledgeFrame{i, {in.progress}};
  }
  if (!lane) return std::nullopt;
  return next_chunk(*lane);
}

// Takes the peer's word on how far it has come, if that is possible at all.
Status Session::confirm(LaneOut& out, const wire::LaneProgress& progress) {
  const std::uint64_t end = out.first + out.queue.size();
  // Going back behind `first` is refused as well: what was acknowledged once is gone, and could not be sent again.
  const bool known = progress.message >= out.first && progress.message <= end;
  // Only what has arrived can be taken, and it is not given back.
  const std::uint64_t arrived = !known                   ? 0
                                : progress.message < end ? out.queue[progress.message - out.first].weight_before
                                                         : out.weight;
  const bool consumed_fits = progress.consumed >= out.peer_consumed && progress.consumed <= arrived;
  const bool offset_fits =
      known && (progress.offset == 0 ||
                (progress.message < end && progress.offset < out.queue[progress.message - out.first].encoded.size));
  if (!offset_fits || !consumed_fits) return corrupt("the peer acknowledges what was not sent");
  for (; out.first < progress.message; ++out.first) {
    Unacknowledged& front = out.queue.front();
    const std::uint64_t size = front.encoded.size;
    RAVNEST_CHECK(weight_of(size) <= out.queued_bytes, "message ", out.first, " has ", size, " bytes, of ",
                  out.queued_bytes, " queued");
    out.queued_bytes -= weight_of(size);
    ++messages_sent_;
    message_bytes_sent_ += size;
    if (front.done) finished_.push_back({std::move(front.done), {}});
    out.queue.pop_front();
  }
  out.peer_consumed = progress.consumed;
  return {};
}

Status Session::acknowledged(std::size_t lane, const wire::Acknowledge& acknowledge) {
  LaneOut& out = lanes_out_[lane];
  // What was not sent on this connection can not have arrived by it.
  const wire::LaneProgress& received = acknowledge.received;
  if (received.message > out.next || (received.message == out.next && received.offset > out.offset)) {
    return corrupt("the peer acknowledges what was not sent");
  }
  return confirm(out, received);
}

// -- receiving

bool Session::is_next(const LaneIn& in, const wire::Chunk& chunk, std::size_t size) const {
  return chunk.message == in.progress.message && chunk.offset == in.progress.offset && size > 0 &&
         chunk.offset < chunk.message_size && size <= chunk.message_size - chunk.offset;
}

Status Session::begin_message(LaneIn& in, const wire::Chunk& chunk) {
  if (chunk.message_size > options_.max_message_bytes) {
    return corrupt("a message of ", chunk.message_size, " bytes is longer than the ", options_.max_message_bytes,
                   " that are allowed");
  }
  // The same rule as in the sender's can_send, from the same numbers: an honest peer knows a `consumed` that is at most
  // ours, so it can only stop earlier.
  if (in.weight - in.progress.consumed >= options_.window_bytes) return corrupt("the peer sends more than it may");
  in.message_size = chunk.message_size;
  return {};
}

Result<std::span<std::byte>> Session::receive_into(std::size_t lane, const wire::Chunk& chunk, std::size_t size) {
  LaneIn& in = lanes_in_[lane];
  if (!is_next(in, chunk, size)) return corrupt("a chunk is not the one that comes next");
  if (chunk.offset == 0) {
    if (Status begun = begin_message(in, chunk); !begun.ok()) return begun;
    in.buffer = {};
  } else if (chunk.message_size != in.message_size) {
    return corrupt("a message changes its length");
  }
  try {
    if (chunk.offset == 0) in.buffer = pool_.begin(chunk.message_size);
    return in.buffer.part(chunk.offset, size);
  } catch (const std::bad_alloc&) {
    return unavailable("there is no memory for a message of ", chunk.message_size, " bytes");
  }
}

std::uint64_t Session::incomplete_bytes() const {
  std::uint64_t bytes = 0;
  for (const LaneIn& in : lanes_in_) bytes += in.progress.offset;
  return bytes;
}

Status Session::chunk_received(std::size_t lane, std::size_t size, TimePoint now) {
  LaneIn& in = lanes_in_[lane];
  RAVNEST_CHECK(size <= in.message_size - in.progress.offset, "message ", in.progress.message, " of ", in.message_size,
                " bytes came up to ", in.progress.offset, ", and now ", size);
  in.progress.offset += size;
  if (in.progress.offset < in.message_size) return {};
  // A message that cannot be decoded does not advance the progress: it would come again, so the owner gives the peer
  // up.
  const Buffer buffer = std::exchange(in.buffer, {}).finish();
  auto message = wire::decode({buffer.bytes, buffer.owner});
  if (!message.ok()) return message.status();
  complete_message(lane, std::move(message).value(), now);
  return {};
}

Status Session::message_received(std::size_t lane, const wire::Chunk& chunk, wire::Message message, TimePoint now) {
  LaneIn& in = lanes_in_[lane];
  if (chunk.offset != 0 || !is_next(in, chunk, chunk.message_size)) {
    return corrupt("a message is not the one that comes next");
  }
  if (Status begun = begin_message(in, chunk); !begun.ok()) return begun;
  complete_message(lane, std::move(message), now);
  return {};
}

void Session::complete_message(std::size_t lane, wire::Message message, TimePoint now) {
  LaneIn& in = lanes_in_[lane];
  const std::uint64_t weight = weight_of(in.message_size);
  in.weight += weight;
  ++in.progress.message;
  in.progress.offset = 0;
  ++messages_received_;
  message_bytes_received_ += in.message_size;
  report(in, weight, now);
  arrived_.push_back({lane, weight, std::move(message)});
}

void Session::consumed(std::size_t lane, std::uint64_t weight, TimePoint now) {
  LaneIn& in = lanes_in_[lane];
  RAVNEST_CHECK(weight <= in.weight - in.progress.consumed, "lane ", lane, ": of ", in.weight, " arrived, ",
                in.progress.consumed, " were taken, and now ", weight);
  in.progress.consumed += weight;
  report(in, weight, now);
}

void Session::report(LaneIn& in, std::uint64_t weight, TimePoint now) {
  in.unreported += weight;
  // At a quarter of the window the sender hears of it long before it has to stop; below that a report can wait and ride
  // with a chunk the other way.
  const bool urgent = in.unreported >= options_.window_bytes / 4;
  const TimePoint at = urgent ? now : now + kReportDelay;
  if (!in.report_at || at < *in.report_at) in.report_at = at;
}

void Session::beat(const wire::Heartbeat& heartbeat, TimePoint now) {
  echo_ns_ = heartbeat.sent_ns;
  echo_since_ = now;
  if (heartbeat.echo_ns == 0) return;
  // In floating point, where no number of a peer's can overflow.
  const double sample = (static_cast<double>(nanoseconds(now)) - static_cast<double>(heartbeat.echo_ns) -
                         static_cast<double>(heartbeat.held_ns)) *
                        1e-9;
  if (sample < 0 || sample > 3600) return;  // no time that passed here: a peer that makes it up
  round_trip_s_ = round_trip_s_ == 0 ? sample : round_trip_s_ + (sample - round_trip_s_) / 8;
}

// -- time

Session::Health Session::look(TimePoint now) {
  looked_ = now;
  // While this process stood still it could not be reached either.
  const Duration own_pause = liveness_.look(now);
  unlinked_since_ = std::min(unlinked_since_ + own_pause, now);
  Health health;
  if (!linked_) {
    // One that was never there is waited for, however long: nodes may start in any order.
    health.lost = ever_linked() && now - unlinked_since_ > liveness_.patience();
    if (health.lost) health.reason = text("could not be reached for ", seconds(now - unlinked_since_), " s");
    return health;
  }
  if (liveness_.is_slow(now)) {
    health.slow = true;
    health.silent = liveness_.is_silent(now);
    health.reason = text("said nothing for ", seconds(liveness_.silence(now)), " s");
    return health;
  }
  for (const LaneOut& out : lanes_out_) {
    if (!out.blocked_since || now - *out.blocked_since < kBlockedPatience) continue;
    health.slow = true;
    health.reason = text("has taken no messages for ", seconds(now - *out.blocked_since), " s");
  }
  return health;
}

TimePoint Session::next_deadline() const {
  TimePoint deadline = looked_ + kBeat;
  if (!linked_) return deadline;
  deadline = std::min(deadline, beat_at_);
  for (const LaneIn& in : lanes_in_) deadline = std::min(deadline, in.report_at.value_or(deadline));
  return deadline;
}

void Session::abandon(const Status& status) {
  for (LaneOut& out : lanes_out_) {
    for (Unacknowledged& outgoing : out.queue) {
      if (outgoing.done) finished_.push_back({std::move(outgoing.done), status});
    }
    out.queue.clear();
    out.queued_bytes = 0;
  }
}

void Session::add_to(PeerStatistics& statistics) const {
  statistics.messages_sent += messages_sent_;
  statistics.messages_received += messages_received_;
  statistics.message_bytes_sent += message_bytes_sent_;
  statistics.message_bytes_received += message_bytes_received_;
  statistics.round_trip_s = round_trip_s_;
  for (const LaneOut& out : lanes_out_) statistics.queued_bytes += out.queued_bytes;
  for (const LaneIn& in : lanes_in_) statistics.unread_bytes += in.weight - in.progress.consumed;
}

}  // namespace ravnest::transport
