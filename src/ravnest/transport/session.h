// One end of the conversation with a peer: what makes messages arrive once and in order over connections that break.
//
// A state machine: no thread, socket or clock inside. Its owner tells it what came and what time it is, and asks it for
// frames to send. Each lane numbers its messages; the receiver says how far it has come, at every new connection and
// now and then, and the sender goes on from there. What is not acknowledged is kept.
// The receiver also says how much its application has taken. A lane starts a message only while less than
// `window_bytes` of earlier ones are not taken, so a reader that stops bounds the memory of both ends.
// A session is known by a number at each end. When a peer comes with a number that is not the one of before, it has
// forgotten the session (it restarted, or gave up): the session is over, and a new one starts with nothing in it.
// Not thread-safe; one owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/buffers.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/liveness.h"
#include "ravnest/wire/frame.h"
#include "ravnest/wire/message.h"

namespace ravnest::transport {

struct SessionOptions {
  std::size_t chunk_bytes = 256 << 10;
  std::uint64_t window_bytes = 64 << 20;  // per lane; the longest message comes on top
  std::uint64_t queue_bytes = 64 << 20;   // per lane: a message is accepted while less than this is queued
  std::uint64_t max_message_bytes = std::uint64_t{4} << 30;
  // Of all peers and lanes together: what has arrived and was not taken, whole messages or not.
  std::uint64_t max_unread_bytes = std::uint64_t{8} << 30;
};

struct ChunkFrame {
  std::size_t lane = 0;
  wire::Chunk chunk;
  std::vector<Slice> data;
  const wire::Message* whole = nullptr;  // where the chunk is all of a message; valid until the session's next call
};

struct AcknowledgeFrame {
  std::size_t lane = 0;
  wire::Acknowledge acknowledge;
};

using Frame = std::variant<ChunkFrame, AcknowledgeFrame, wire::Heartbeat>;

// A completion to be called, outside of any lock.
struct Finished {
  Completion done;
  Status status;
};

struct Arrived {
  std::size_t lane = 0;
  std::uint64_t weight = 0;  // to be given back by `consumed`
  wire::Message message;
};

class Session {
 public:
  // `id` is not 0, and no session that this node has given up had it. `pool` outlives the session.
  Session(const SessionOptions& options, std::uint64_t id, BufferPool& pool, TimePoint now);

  std::uint64_t id() const { return id_; }

  // -- sending
  bool has_room(std::size_t lane) const { return lanes_out_[lane].queued_bytes < options_.queue_bytes; }
  // kInvalid for a message that is too long. There must be room.
  Status enqueue(std::size_t lane, wire::Message message, wire::EncodedMessage encoded, Completion done);
  // The next frame for the connection, if there is one to be sent now.
  std::optional<Frame> next_frame(TimePoint now);
  bool all_acknowledged() const;

  // -- the connection
  void describe(wire::Hello& hello) const;
  // Whether the peer's hello goes on with this session (or starts it); false: the peer has forgotten it, or it is not
  // the peer's that this session is with.
  bool continues(const wire::Hello& hello) const;
  // The peer's hello, which continues the session, came on a new connection; an earlier one is over.
  Status link(const wire::Hello& hello, TimePoint now);
  void unlink(TimePoint now);
  bool linked() const { return linked_; }
  bool ever_linked() const { return peer_id_ != 0; }

  // -- receiving; a failure is kCorrupt unless it is said otherwise, and the connection should be made anew
  void heard(TimePoint now) { liveness_.heard(now); }
  // Where the next `size` bytes of the message go. They become part of it with `chunk_received`. Memory is taken for
  // what has come, not for what a message is said to be; kUnavailable where there is none.
  Result<std::span<std::byte>> receive_into(std::size_t lane, const wire::Chunk& chunk, std::size_t size);
  Status chunk_received(std::size_t lane, std::size_t size, TimePoint now);
  // A whole message that was handed over, not sent as bytes.
  Status message_received(std::size_t lane, const wire::Chunk& chunk, wire::Message message, TimePoint now);
  Status acknowledged(std::size_t lane, const wire::Acknowledge& acknowledge);
  void beat(const wire::Heartbeat& heartbeat, TimePoint now);
  // Of messages that are not complete.
  std::uint64_t incomplete_bytes() const;
  // The application has taken a message.
  void consumed(std::size_t lane, std::uint64_t weight, TimePoint now);

  // -- time
  struct Health {
    bool slow = false;    // `reason` says in which way
    bool silent = false;  // the connection is to be given up
    bool lost = false;    // the peer is to be given up
    std::string reason;
  };
  Health look(TimePoint now);
  Duration silence(TimePoint now) const { return liveness_.silence(now); }
  // When `next_frame` or `look` has something new even if nothing happens.
  TimePoint next_deadline() const;

  // -- what has come of it, since the last call
  std::vector<Arrived> take_arrived() { return std::exchange(arrived_, {}); }
  std::vector<Finished> take_finished() { return std::exchange(finished_, {}); }
  // Ends every open message.
  void abandon(const Status& status);

  void add_to(PeerStatistics& statistics) const;

 private:
  struct Unacknowledged {
    wire::Message message;
    wire::EncodedMessage encoded;
    Completion done;
    std::uint64_t weight_before = 0;  // of all earlier messages of the lane
  };
  struct LaneOut {
    std::deque<Unacknowledged> queue;  // not acknowledged
    std::uint64_t first = 0;           // the number of the queue's front
    std::uint64_t next = 0;            // the message being sent
    std::uint64_t offset = 0;          // bytes of it that were sent on this connection
    std::uint64_t queued_bytes = 0;
    std::uint64_t weight = 0;         // of all messages so far
    std::uint64_t peer_consumed = 0;  // of that
    std::optional<TimePoint> blocked_since;
    int overtaken = 0;  // chunks of other lanes in a row while this one had something
  };
  struct LaneIn {
    wire::LaneProgress progress;
    std::uint64_t weight = 0;  // of all complete messages
    std::uint64_t message_size = 0;
    GrowingBuffer buffer;
    std::uint64_t unreported = 0;  // weight received or consumed since the last acknowledgement
    std::optional<TimePoint> report_at;
  };

  bool is_next(const LaneIn& in, const wire::Chunk& chunk, std::size_t size) const;
  Status begin_message(LaneIn& in, const wire::Chunk& chunk);
  void complete_message(std::size_t lane, wire::Message message, TimePoint now);
  void report(LaneIn& in, std::uint64_t weight, TimePoint now);
  bool can_send(const LaneOut& out) const;
  std::optional<std::size_t> next_lane(TimePoint now);
  ChunkFrame next_chunk(std::size_t lane);
  Status confirm(LaneOut& out, const wire::LaneProgress& progress);

  const SessionOptions options_;
  const std::uint64_t id_;
  BufferPool& pool_;
  std::uint64_t peer_id_ = 0;
  bool linked_ = false;
  TimePoint unlinked_since_;
  Liveness liveness_;
  TimePoint beat_at_;
  TimePoint looked_;
  std::int64_t echo_ns_ = 0;
  TimePoint echo_since_;
  double round_trip_s_ = 0;
  std::array<LaneOut, wire::kLanes> lanes_out_;
  std::array<LaneIn, wire::kLanes> lanes_in_;
  std::vector<Arrived> arrived_;
  std::vector<Finished> finished_;
  std::uint64_t messages_sent_ = 0;
  std::uint64_t messages_received_ = 0;
  std::uint64_t message_bytes_sent_ = 0;
  std::uint64_t message_bytes_received_ = 0;
};

}  // namespace ravnest::transport
