// The network's thread of an endpoint: all its connections, and where they come from.
//
// Everything here runs on that one thread, but for the constructor, `wake`, `say_goodbye` and the destructor. A short
// message to an idle connection is written by the thread that sends it: to hand it over would take longer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/net/background_tasks.h"
#include "ravnest/net/event_descriptor.h"
#include "ravnest/net/socket.h"
#include "ravnest/transport/switchboard.h"
#include "ravnest/transport/tcp/connection.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/transport/tcp/poller.h"
#include "ravnest/transport/tcp/probe_service.h"
#include "ravnest/transport/tcp/rate_limited_log.h"
#include "ravnest/transport/tcp/tls.h"

namespace ravnest::transport::tcp {

class Loop {
 public:
  // `board` and `options` outlive it.
  Loop(const Options& options, std::optional<TlsContext> tls, Listener listener, Switchboard& board);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  // Drops all connections at once.
  ~Loop();

  // There are frames to send to the peer, for a message of that many bytes. From any thread.
  void wake(const std::string& peer, std::uint64_t bytes);
  // The peer is dialled there from now on. From any thread.
  void meet(const std::string& peer, const Address& address);
  // Of the peer's connection; empty while there is none. From any thread.
  std::string host_of(const std::string& peer);
  // Tells all peers that this node ends, waits for that to have gone out or for the deadline, and ends the thread.
  void say_goodbye(TimePoint deadline);

 private:
  // For a connection to say who it is, and for a probe to go on.
  static constexpr Duration kGreetingTime = std::chrono::seconds(10);
  static constexpr Duration kFirstBackoff = std::chrono::milliseconds(20);

  using Connections = std::map<std::uint64_t, std::shared_ptr<Connection>>;
  struct Line {              // to one peer
    Address address;         // port 0: not known yet
    bool preferred = false;  // of both ends' dialling, ours wins
    bool dialling = false;
    std::uint64_t connection = 0;  // the one in use, or the one we dialled and greet on; 0: none
    bool linked = false;
    TimePoint retry_at;
    Duration backoff{};
    TimePoint say_twice_at{};  // when it is worth a line again that a second process has the peer's name
  };

  struct Dialled {
    std::string peer;
    Result<Socket> socket;
  };

  // -- the thread, and connections that come and go (loop.cpp)
  void run();
  void wake();
  bool write_here(const std::string& peer);
  int timeout_ms() const;
  void handle(std::uint64_t token);
  void accept();
  void add(Socket socket, Side side, const std::string& peer);
  void take_dialled();
  void take_met();
  void dial_due(TimePoint now);
  void expire(TimePoint now);
  void check_liveness(TimePoint now);
  bool take_leave(TimePoint now);
  void make_room_for_a_stranger();
  std::string turn_away(TurnedAway who);
  void pump_or_drop(Connection& connection);
  void retry_later(Line& line);
  // The connection is over, for that reason.
  void drop(std::uint64_t id, std::string_view reason);
  Connection* find(std::uint64_t id);

  // -- one connection (loop_frames.cpp)
  void advance(Connection& connection);
  Status go_on(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status handshake(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  void send_hello(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status read(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status on_frame(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status on_hello(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status admit(Connection& connection, const wire::Hello& hello) RAVNEST_REQUIRES(connection.in_use);
  bool is_second(Connection& connection, const wire::Hello& hello) RAVNEST_REQUIRES(connection.in_use);
  void refuse(Connection& connection, wire::GoodbyeCode code, TurnedAway who) RAVNEST_REQUIRES(connection.in_use);
  Status on_goodbye(Connection& connection) RAVNEST_REQUIRES(connection.in_use);
  Status take(Connection& connection, FrameReader::Step step) RAVNEST_REQUIRES(connection.in_use);
  Status link(Connection& connection, const wire::Hello& hello) RAVNEST_REQUIRES(connection.in_use);
  void queue(Connection& connection, Frame frame) RAVNEST_REQUIRES(connection.in_use);
  Result<bool> pump(Connection& connection, int most_frames = std::numeric_limits<int>::max())
      RAVNEST_REQUIRES(connection.in_use);
  void close_with(Connection& connection, wire::GoodbyeCode code, std::string_view reason)
      RAVNEST_REQUIRES(connection.in_use);
  void watch(Connection& connection, bool write) RAVNEST_REQUIRES(connection.in_use);
  void count(Connection& connection) RAVNEST_REQUIRES(connection.in_use);

  const Options& options_;
  const std::optional<TlsContext> tls_;
  Switchboard& board_;
  SystemClock clock_;
  Listener listener_;
  BackgroundTasks<Dialled> diallings_;
  ProbeService probes_;
  Poller poller_;
  RateLimitedLog limited_log_;
  EventDescriptor wakeup_;
  std::map<std::string, Line> lines_;
  Connections connections_;
  Mutex met_mutex_;
  std::map<std::string, Address> met_ RAVNEST_GUARDED_BY(met_mutex_);  // told by `meet`, and not taken yet
  Mutex open_mutex_;
  // Those that other threads may write to, by peer.
  std::map<std::string, std::shared_ptr<Connection>> open_ RAVNEST_GUARDED_BY(open_mutex_);
  std::uint64_t next_id_;
  std::mt19937_64 random_;
  std::atomic<bool> awake_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<TimePoint> goodbye_until_ = TimePoint::max();  // max: not asked for
  bool said_goodbye_ = false;
  std::vector<std::uint64_t> unread_;  // connections whose turn ended before their bytes
  TimePoint look_at_;
  bool listening_ = true;
  TimePoint accept_again_;
  std::thread thread_;
};

}  // namespace ravnest::transport::tcp
