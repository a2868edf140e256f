// A network inside one process: for nodes that are threads, for tests, and for simulation.
//
// Messages are handed over by reference; no byte of a tensor is copied. Sessions, liveness and reconnecting are the
// same code as on a real network, so faults show what they would show there. With real time, frames without a delay are
// carried by the thread that sends, and a thread of the network's own does the rest. Driven by a ManualClock nothing
// happens but in `run_until`, and the same seed and calls give the same events. Endpoints must be gone before their
// network. Safe from any thread; `run_until` from one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/session.h"
#include "ravnest/transport/switchboard.h"

namespace ravnest::transport::inproc {

// Of one direction between two nodes. Frames keep their order; those of different pairs do not.
struct Conditions {
  Duration delay{};
  Duration jitter{};  // 0 to this much is added, drawn for each frame
};

class Network {
 public:
  Network();
  // `clock` outlives the network.
  Network(ManualClock& clock, std::uint64_t seed);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  // A node. A second one of the same name is turned away by its peers while the first is there, and takes its place
  // then. `options.chunk_bytes` beyond any message, the default here, hands messages over whole.
  std::unique_ptr<Endpoint> open(const std::string& name, const std::vector<std::string>& peers);
  std::unique_ptr<Endpoint> open(const std::string& name, const std::vector<std::string>& peers,
                                 SessionOptions options);

  void set_conditions(const std::string& from, const std::string& to, Conditions conditions);
  // Breaks the connection between the two, if there is one; what is under way does not arrive.
  void cut(const std::string& a, const std::string& b);
  // While parted, nothing gets from one to the other and neither is told why; healed, what was under way goes on.
  void set_parted(const std::string& a, const std::string& b, bool parted);

  // Lets everything happen that is due until then, in order, and moves the clock there. Only with a ManualClock.
  void run_until(TimePoint time);

 private:
  friend class Node;
  using Pair = std::pair<std::string, std::string>;  // in order
  using Parcel = std::variant<wire::Hello, ChunkFrame, AcknowledgeFrame, wire::Heartbeat>;
  struct UnderWay {
    TimePoint arrives;
    Parcel parcel;
    wire::Message message;  // of a chunk that is a whole one
  };
  struct Way {
    Conditions conditions;
    std::deque<UnderWay> under_way;
  };
  struct Link {
    bool open = false;
    bool parted = false;
    TimePoint retry_at;
    Duration backoff{};
    std::map<std::string, Way> towards;             // by receiver
    std::map<std::string, std::uint64_t> sessions;  // of each end, as its hello said
  };

  struct Second {
    std::vector<std::string> peers;
    std::shared_ptr<Switchboard> board;
  };

  void join(const std::string& name, const std::vector<std::string>& peers, std::shared_ptr<Switchboard> board);
  void leave(const Switchboard& leaver, const std::optional<std::string>& goodbye);
  void put_in_place(const std::string& name, const std::vector<std::string>& peers, std::shared_ptr<Switchboard> board)
      RAVNEST_REQUIRES(mutex_);
  void wake(const std::string& from, const std::string& to);
  void run();
  void stir() RAVNEST_REQUIRES(mutex_);
  // Carries out all that is due; returns when the next thing is.
  TimePoint advance(TimePoint now) RAVNEST_REQUIRES(mutex_);
  TimePoint next_of(const Pair& pair, const Link& link) RAVNEST_REQUIRES(mutex_);
  bool advance_link(const Pair& pair, Link& link, TimePoint now) RAVNEST_REQUIRES(mutex_);
  void greet(const Pair& pair, Link& link, TimePoint now) RAVNEST_REQUIRES(mutex_);
  void post(Link& link, const std::string& to, Parcel parcel, TimePoint now) RAVNEST_REQUIRES(mutex_);
  Status deliver(const std::string& from, const std::string& to, UnderWay& arrived) RAVNEST_REQUIRES(mutex_);
  void disconnect(const Pair& pair, Link& link, TimePoint now, std::string_view reason) RAVNEST_REQUIRES(mutex_);
  // Completions want the lock: it is let go meanwhile.
  void settle() RAVNEST_REQUIRES(mutex_);
  Switchboard* board(const std::string& name) RAVNEST_REQUIRES(mutex_);
  static Pair pair_of(const std::string& a, const std::string& b);

  SystemClock system_clock_;
  ManualClock* manual_ = nullptr;
  const Clock& clock_;
  Mutex mutex_;
  ConditionVariable changed_;
  Mutex random_mutex_;
  std::mt19937_64 random_ RAVNEST_GUARDED_BY(random_mutex_);
  std::map<std::string, std::shared_ptr<Switchboard>> boards_ RAVNEST_GUARDED_BY(mutex_);
  // By the name that the first of its boards has.
  std::map<std::string, std::deque<Second>> seconds_ RAVNEST_GUARDED_BY(mutex_);
  std::map<Pair, Link> links_ RAVNEST_GUARDED_BY(mutex_);
  TimePoint sleeps_until_ RAVNEST_GUARDED_BY(mutex_);
  bool stirred_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool ending_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ravnest::transport::inproc
