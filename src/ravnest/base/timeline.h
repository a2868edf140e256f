// What happens when, in simulated time: events come out by their time, and those of one time in the order in which they
// were put in. Events are kept where they are while their order changes, since they may be large. Not thread-safe; one
// owner.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace ravnest {

template <class Event>
class Timeline {
 public:
  using Time = std::uint64_t;

  void put(Time at, Event event) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(events_.size()));
      events_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    events_[slot] = std::move(event);
    due_.push({at, order_++, slot});
  }

  // The next event, and when.
  std::optional<std::pair<Time, Event>> next() {
    if (due_.empty()) return std::nullopt;
    const Due due = due_.top();
    due_.pop();
    free_.push_back(due.slot);
    return std::pair(due.at, std::move(events_[due.slot]));
  }

 private:
  struct Due {
    Time at = 0;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    bool operator<(const Due& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;
  std::priority_queue<Due> due_;
  std::uint64_t order_ = 0;
};

}  // namespace ravnest
