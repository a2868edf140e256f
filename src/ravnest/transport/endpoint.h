// A node's place on the network: named peers, messages to and from them, and how they are.
//
// What holds for every transport; conformance.h tests it:
// - Messages of one priority to one peer arrive once, whole and in the order of sending, across broken connections.
// Where
//   that can not be kept (the peer restarted, or was unreachable for too long) the peer is reported lost: every message
//   that it had not acknowledged then completes with a failure, and nothing is ever silently missing.
// - Priorities overtake each other, also in the middle of a long message.
// - Peers may start in any order. An endpoint connects, and connects again, by itself for as long as it lives.
// - Memory is bounded: a peer that does not take its messages makes `send` say that there is no room.
// - Whether a peer is alive follows from what was seen of it (liveness.h); there is no timeout to set.
// - What is said of averaging between clusters is received apart from all else, so that it moves on while the training
//   computes. Each channel has one thread that receives.
// All functions are safe from any thread; a Completion may call them too.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/wire/message.h"

namespace ravnest::transport {

enum class Priority : std::uint8_t {
  kUrgent = 0,  // small and rare: control
  kHigh = 1,    // gradients: others wait for them
  kNormal = 2,  // activations
  kBulk = 3,    // averaging, weights
};

enum class PeerState : std::uint8_t {
  kWaiting,  // not seen yet
  kUp,
  kSlow,  // connected, but silent for longer than it used to be, or takes no messages
  kDown,  // the connection is broken and being made again; nothing is lost
  kLost,  // given up or restarted: what it had not acknowledged is lost; it may come up again, with nothing in between
  kLeft,  // closed its endpoint in good order
};
std::string_view name(PeerState state);
inline std::ostream& operator<<(std::ostream& out, PeerState state) { return out << name(state); }

// What keeps a peer away, as far as there is something to decide on; the reason tells people the rest.
enum class PeerTrouble : std::uint8_t {
  kNone,
  kOtherPlan,     // its certificate is good, but of another plan: waiting will not help
  kOtherProgram,  // what answers at its address does not speak TLS
  kRefused,       // it does not let this node in; the reason is its own
};

enum class Channel : std::uint8_t {
  kTraining = 0,
  kAveraging = 1,  // RingChunk, Averaging
};
inline constexpr std::size_t kChannels = 2;
Channel channel_of(const wire::Message& message);

// Told on every channel, in its place between the peer's messages there.
struct PeerChange {
  PeerState state = PeerState::kWaiting;
  std::string reason;  // a sentence; empty for kUp
  PeerTrouble trouble = PeerTrouble::kNone;
};

struct Event {
  std::string peer;
  std::variant<wire::Message, PeerChange> what;
};

// Called once for each accepted message: ok when the peer's endpoint has all of it, otherwise why it may never have.
// Called by the transport's thread: keep it short.
using Completion = std::function<void(const Status&)>;

struct PeerStatistics {
  PeerState state = PeerState::kWaiting;
  std::string reason;
  PeerTrouble trouble = PeerTrouble::kNone;
  std::uint64_t messages_sent = 0;  // and acknowledged
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent = 0;  // on the connection: messages, frames, heartbeats; TLS comes on top
  std::uint64_t bytes_received = 0;
  std::uint64_t message_bytes_sent = 0;  // of messages alone, each counted once
  std::uint64_t message_bytes_received = 0;
  std::uint64_t queued_bytes = 0;  // accepted and not acknowledged
  std::uint64_t unread_bytes = 0;  // arrived and not taken
  std::uint64_t connections = 0;   // made so far
  double round_trip_s = 0;         // smoothed; 0: not measured yet
};

class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  // Ends at once; messages not yet acknowledged complete with kCancelled. `close` first to be polite.
  virtual ~Endpoint() = default;

  virtual const std::string& name() const = 0;

  // Accepts the message or says why not; only an accepted one completes. The tensors' bytes must stay unchanged until
  // then. Where the queue to the peer is full it waits for room until `deadline`, and then gives kUnavailable.
  // kNotFound for a name that is not a peer, kUnavailable while the peer is lost or has left, kCancelled after `close`,
  // kInvalid for a message that can not be sent.
  virtual Status send(const std::string& peer, wire::Message message, Priority priority, Completion done = {},
                      TimePoint deadline = {}) = 0;

  // The next message or change of a peer. kDeadline where there is none until then, kCancelled after `close`,
  // kUnavailable where it was interrupted.
  virtual Result<Event> receive(TimePoint deadline, Channel channel = Channel::kTraining) = 0;

  // One `receive`, the one that waits or the next that would, ends with kUnavailable. For whoever has something else to
  // tell the thread that receives.
  virtual void interrupt(Channel channel = Channel::kTraining) = 0;

  // kNotFound for a name that is not a peer.
  virtual Result<PeerStatistics> statistics(const std::string& peer) const = 0;

  // Takes no more messages, waits until all that were accepted are acknowledged or the deadline comes, then tells the
  // peers and ends. kDeadline where some message was still open. Closing again does nothing.
  virtual Status close(TimePoint deadline) = 0;
};

}  // namespace ravnest::transport
