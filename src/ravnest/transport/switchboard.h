// The sessions of an endpoint behind one lock: what all transports have in common.
//
// An application's threads send and receive on one side; on the other a carrier (one thread at a time, and the same
// order of calls as on its connection) moves frames and reports connections. The switchboard keeps the peers' states,
// the queue of events and the waiting threads. Those are woken, and completions called, by `settle`, which a carrier
// calls after it has told the switchboard something and holds no lock that they could want.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/session.h"

namespace ravnest::transport {

struct SwitchboardOptions {
  std::string name;
  std::vector<std::string> peers;
  SessionOptions session;
  // A number that this node never gave before, in this process or an earlier one; not 0.
  std::function<std::uint64_t()> new_session_id;
};

class Switchboard {
 public:
  // There are new frames for the peer. `bytes` is the length of the message that was just accepted, or 0.
  using Wake = std::function<void(const std::string& peer, std::uint64_t bytes)>;

  // `clock` outlives it. `wake` is called without the lock, by the application's threads.
  Switchboard(SwitchboardOptions options, const Clock& clock, Wake wake);

  // -- for the application, as in endpoint.h
  const std::string& name() const { return options_.name; }
  Status send(const std::string& peer, wire::Message message, Priority priority, Completion done, TimePoint deadline);
  Result<Event> receive(TimePoint deadline, Channel channel = Channel::kTraining);
  void interrupt(Channel channel = Channel::kTraining);
  Result<PeerStatistics> statistics(const std::string& peer) const;
  // No more messages are taken from here on.
  void stop_sending();
  // Until all accepted messages are acknowledged, or can't be any more.
  Status wait_until_drained(TimePoint deadline);
  // Ends everything: waiting calls, open messages, events. No Completion is called after it returns.
  void shut(const Status& status);

  // -- for the carrier
  bool knows(const std::string& peer) const;
  // What this end says first on a new connection to the peer; the carrier fills in the rest.
  void describe(const std::string& peer, wire::Hello& hello) const;
  // Whether the peer's hello on a new connection may be answered. A name belongs to whoever has a live connection under
  // it: kUnavailable, with a sentence for both sides, where a second process comes with that name meanwhile. A process
  // that was started anew gets in as soon as the connection of the old one is closed or given up as silent.
  Status admits(const std::string& peer, const wire::Hello& hello) const;
  // A connection to the peer is ready, and the peer's hello came. Reports a session that this ends. `own_session` is
  // what this end's own hello named on that connection: kUnavailable where that session was given up meanwhile, or
  // where the hello is not admitted.
  Status linked(const std::string& peer, const wire::Hello& hello, std::uint64_t own_session);
  // The connection is gone.
  void unlinked(const std::string& peer, std::string_view reason);
  // Why there is no connection yet or any more, for those who wait.
  void note(const std::string& peer, std::string reason, PeerTrouble trouble = PeerTrouble::kNone);
  // The peer said that it ends.
  void left(const std::string& peer, std::string_view reason);
  // The session can not go on: what came makes no sense, or the peer must not talk to us.
  void give_up(const std::string& peer, std::string_view reason);
  bool is_linked(const std::string& peer) const;
  // Whether nothing was heard on the peer's connection for long enough to prefer another one.
  bool is_quiet(const std::string& peer) const;

  std::optional<Frame> next_frame(const std::string& peer);
  void heard(const std::string& peer);
  Result<std::span<std::byte>> receive_into(const std::string& peer, std::size_t lane, const wire::Chunk& chunk,
                                            std::size_t size);
  Status chunk_received(const std::string& peer, std::size_t lane, std::size_t size);
  Status message_received(const std::string& peer, std::size_t lane, const wire::Chunk& chunk, wire::Message message);
  Status acknowledged(const std::string& peer, std::size_t lane, const wire::Acknowledge& acknowledge);
  void beat(const std::string& peer, const wire::Heartbeat& heartbeat);
  void count_bytes(const std::string& peer, std::uint64_t sent, std::uint64_t received);

  // Looks at the liveness of all peers; tells which connections are to be given up.
  std::vector<std::string> look();
  // When the peer has a frame to send, or is to be looked at, even if nothing happens.
  TimePoint next_deadline(const std::string& peer) const;
  // Wakes who waits for what has come, and calls what is due to be called.
  void settle();

 private:
  struct Peer {
    std::unique_ptr<Session> session;
    std::uint64_t serial = 0;  // of the session, counted here
    PeerState state = PeerState::kWaiting;
    std::string reason;
    PeerTrouble trouble = PeerTrouble::kNone;
    PeerStatistics past;  // of earlier sessions, and what is counted per peer
  };
  struct Queued {
    std::string peer;
    std::uint64_t serial = 0;  // of the session that the message came by
    std::size_t lane = 0;
    std::uint64_t weight = 0;
    std::variant<wire::Message, PeerChange> what;
  };

  // What one channel's thread receives.
  struct ReceiveQueue {
    std::deque<Queued> events;
    bool notify = false;  // by the next `settle`
    bool interrupted = false;
  };

  ReceiveQueue& receive_queue(Channel channel) RAVNEST_REQUIRES(mutex_) {
    return receive_queues_[static_cast<std::size_t>(channel)];
  }
  ConditionVariable& arrived(Channel channel) { return arrived_[static_cast<std::size_t>(channel)]; }
  Peer* find(const std::string& peer) RAVNEST_REQUIRES(mutex_);
  const Peer* find(const std::string& peer) const RAVNEST_REQUIRES(mutex_);
  std::unique_ptr<Session> new_session(std::uint64_t id);
  // Moves what the session has finished and received to where it is waited for.
  void collect(const std::string& name, Peer& peer) RAVNEST_REQUIRES(mutex_);
  void change(const std::string& name, Peer& peer, PeerState state, std::string reason) RAVNEST_REQUIRES(mutex_);
  void announce(const std::string& name, const Peer& peer) RAVNEST_REQUIRES(mutex_);
  void announce(ReceiveQueue& queue, const std::string& name, const Peer& peer) RAVNEST_REQUIRES(mutex_);
  // Ends the session and begins another one, under the number `id`.
  void begin_anew(const std::string& name, Peer& peer, std::uint64_t id, const Status& why) RAVNEST_REQUIRES(mutex_);
  void end(const std::string& name, PeerState state, std::string_view reason);
  Status gone(const std::string& name, const Peer& peer) const RAVNEST_REQUIRES(mutex_);
  Status admits(const std::string& name, const Peer& peer, const wire::Hello& hello) const RAVNEST_REQUIRES(mutex_);
  Status has_room_for(std::uint64_t bytes) const RAVNEST_REQUIRES(mutex_);

  const SwitchboardOptions options_;
  const Clock& clock_;
  const Wake wake_;
  BufferPool pool_;
  mutable Mutex mutex_;
  ConditionVariable progressed_;                               // room in a queue, or something acknowledged
  bool notify_progressed_ RAVNEST_GUARDED_BY(mutex_) = false;  // by the next `settle`
  std::map<std::string, Peer, std::less<>> peers_ RAVNEST_GUARDED_BY(mutex_);
  std::array<ReceiveQueue, kChannels> receive_queues_ RAVNEST_GUARDED_BY(mutex_);
  std::array<ConditionVariable, kChannels> arrived_;  // something in that queue
  // Of events that are not taken, with what their messages count on top.
  std::uint64_t unread_bytes_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::vector<Finished> finished_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<std::thread::id> settling_ RAVNEST_GUARDED_BY(mutex_);
  ConditionVariable settled_;
  bool sending_ RAVNEST_GUARDED_BY(mutex_) = true;
  std::optional<Status> shut_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::transport
