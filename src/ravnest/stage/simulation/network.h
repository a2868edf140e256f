// Simulated time, and a network that keeps exactly what transport/endpoint.h promises.
//
// Messages of one lane from one stage to another come once and in the order of sending, after a delay that is drawn
// for each. Where two stages are parted, what is under way between them is gone, and so is all that is sent later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/base/timeline.h"
#include "ravnest/stage/simulation/scenario.h"
#include "ravnest/wire/message.h"

namespace ravnest::stage::simulation {

enum class Lane : std::uint8_t { kUrgent, kHigh, kNormal };

enum class EventKind : std::uint8_t {
  // Messages.
  kForward,
  kBackward,
  kTiedGradients,
  kTiedValues,
  kReport,
  kReady,
  kOver,
  kAccount,
  kClosed,
  kFailed,
  // What the transport says of another stage.
  kLost,
  kLeft,
  // What is heard of other clusters.
  kHeld,
  // What a stage's driver waits for.
  kWorked,
  kResumed,
  kSettled,
};
constexpr bool is_message(EventKind kind) { return kind <= EventKind::kFailed; }

struct Event {
  EventKind kind = EventKind::kForward;
  int to = 0;
  int from = 0;
  std::uint64_t number =
      0;                // a pass, an update, a count of passes, a round; kFailed: which of the reasons told in this run
  wire::PassHead head;  // kForward
};

class Network {
 public:
  Network(const Scenario& scenario, Choices& choices);

  Time now() const { return now_; }
  void send(const Event& message, Lane lane);
  // Tells a stage something that does not travel, after a while.
  void after(Time delay, const Event& event);
  // `from` closes its endpoint in good order: `to` hears of it after all messages.
  void leave(int from, int to);
  void part(int one, int other);
  bool parted(int one, int other) const { return parted_[pair(one, other)]; }

  // The next thing to happen, at the time at which it does.
  std::optional<Event> next();

 private:
  static constexpr std::size_t kLanes = 3;
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * count_ + static_cast<std::size_t>(to);
  }
  Time draw_delay();

  const Scenario& scenario_;
  Choices& choices_;
  std::size_t count_;
  Time now_ = 0;
  std::vector<Time> last_;  // arrival, by pair and lane
  std::vector<bool> parted_;
  Timeline<Event> timeline_;
};

}  // namespace ravnest::stage::simulation
