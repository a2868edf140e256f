// The thread that carries all connections of a relay.
//
// Everything below is touched by that thread alone; other threads hand it commands and wait until they are carried out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/descriptor.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/net/event_descriptor.h"
#include "relay/connection.h"
#include "relay/door.h"
#include "relay/profile.h"
#include "relay/statistics.h"
#include "relay/wire.h"

namespace ravnest::relay {

class Loop {
 public:
  Loop(Door door, const Endpoint& server, const Profile& profile);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  // From any thread. Each returns when it has been done.
  void cut();
  Status set_refusing(bool refusing);
  void set_silent(bool silent);
  void set_profile(const Profile& profile);

  Statistics statistics();

 private:
  struct Timer {
    TimePoint at;
    std::uint64_t id;
    friend bool operator>(const Timer& a, const Timer& b) { return a.at > b.at; }
  };
  // A direction's wire, and the connections that have something for it, in turn.
  struct Track {
    Wire wire;
    std::deque<std::uint64_t> waiting;
  };

  void run();
  void command(std::function<void()> work);
  void run_commands();
  void wait();
  void take_event(std::uint64_t tag, std::uint32_t events);
  void fire_timers(TimePoint now);
  void take_turns(int way, TimePoint now);

  void accept_all();
  void add(Descriptor client);
  void dial(Connection& connection);
  void watch(int descriptor, std::uint64_t tag, std::uint32_t events) const;
  std::uint64_t draw_cut();

  // Does for a connection what can be done now, and sees to it that it is served again when more can be done.
  void serve(Connection& connection, TimePoint now);
  void serve_lane(Connection& connection, int way, TimePoint now);
  void settle(Connection& connection, TimePoint now);
  void count(Connection& connection, int way, std::uint64_t given_before);
  void make_ready(Connection& connection);
  void wake_at(Connection& connection, TimePoint at);
  Connection* find(std::uint64_t id);

  SystemClock clock_;
  Descriptor epoll_;
  EventDescriptor wake_;
  Door door_;
  Endpoint server_;
  Profile profile_;
  std::mt19937_64 random_;
  std::array<Track, 2> tracks_;
  std::vector<std::byte> scratch_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_id_ = 0;
  std::vector<std::uint64_t> ready_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::optional<TimePoint> knock_again_;  // accepting failed, for want of descriptors
  bool silent_ = false;
  bool stopping_ = false;
  Statistics counts_;

  Mutex mutex_;
  std::vector<std::packaged_task<void()>> commands_ RAVNEST_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ravnest::relay
