// Simulated time, and connections between clusters that keep what transport/endpoint.h promises.
//
// A connection comes up at its two ends at different times. Until it is cut, messages come once and in order; then both
// ends hear that the other is lost, each when it is, and from what was under way any number of the last may be gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "ravnest/base/timeline.h"
#include "ravnest/wire/message.h"

namespace ravnest::average::simulation {

using Time = std::uint64_t;

// The one source of chance of a run.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  std::uint64_t pick(std::uint64_t least, std::uint64_t most) { return least + random_() % (most - least + 1); }
  int pick_int(int least, int most) {
    return least + static_cast<int>(pick(0, static_cast<std::uint64_t>(most - least)));
  }
  bool percent(std::uint64_t chance) { return pick(1, 100) <= chance; }

 private:
  std::mt19937_64 random_;
};

enum class EventKind : std::uint8_t {
  kMessage,
  kUp,
  kDown,
  kStart,  // of a process
  kCrash,
  kLeave,
  kTrained,  // as far as it wanted
  kResume,
  kResult,     // of attempt `number`
  kUnreached,  // `from`, in attempt `number`
  kPatience,
  kPart,  // from `from`
  kJoin,
};

struct Event {
  EventKind kind = EventKind::kMessage;
  int to = 0;
  int from = 0;
  std::uint64_t number = 0;  // kMessage, kUp, kDown: the connection
  int incarnation = 0;       // of `to`; 0: whichever
  wire::Averaging message = {};
};

class Network {
 public:
  Network(int clusters, Chance& chance);

  Time now() const { return now_; }
  void after(Time delay, const Event& event);
  std::optional<Event> next();

  void connect(int one, int other, int incarnation_of_one, int incarnation_of_other);
  bool connected(int one, int other) const { return current_[pair(one, other)] != 0; }
  // Whatever is under way between them may be gone.
  void cut(int one, int other);
  // `one` goes in good order: all that it said arrives first.
  void close(int one, int other);
  // On the connection that `from` takes to be up.
  void send(int from, int to, const wire::Averaging& message);
  // For kMessage, kUp and kDown, when they are due: whether the application hears of it.
  bool arrives(const Event& event);
  // The process has ended, and with it all that it took to be up.
  void forget(int cluster);

 private:
  static constexpr Time kForever = std::numeric_limits<Time>::max();
  struct End {
    int cluster = 0;
    int incarnation = 0;
    Time last = 0;          // arrival there
    Time until = kForever;  // messages arrive there
  };
  struct Connection {
    End ends[2];
    End& at(int cluster) { return ends[ends[0].cluster == cluster ? 0 : 1]; }
  };
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * count_ + static_cast<std::size_t>(to);
  }
  void part(int one, int other, bool in_order);
  Time draw_delay() { return chance_.percent(10) ? chance_.pick(1, 100) : chance_.pick(1, quick_); }

  Chance& chance_;
  std::size_t count_;
  Time quick_;
  Time notices_;  // the longest time until a loss is reported
  Time now_ = 0;
  std::vector<Connection> connections_;  // the first is none
  std::vector<std::uint64_t> current_;   // by pair: the connection between them
  std::vector<std::uint64_t> open_;      // by pair: the one that the first takes to be up
  std::vector<Time> free_at_;            // by pair: when the first has heard of the end of the last one
  Timeline<Event> timeline_;
};

}  // namespace ravnest::average::simulation
