// How often checkpoints are made, as users write it, and when the next one is due.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest::checkpoint {

struct Interval {
  enum class Unit : std::uint8_t { kEpochs, kUpdates, kSeconds };

  Unit unit = Unit::kEpochs;
  std::uint64_t count = 1;

  bool operator==(const Interval&) const = default;
};

// "epoch", "2 epochs", "500 updates", "30 s", "10 min", "2 h". kInvalid with what can be written.
Result<Interval> parse_interval(std::string_view written);
// As parse_interval reads it.
std::string words(const Interval& every);

// When the next checkpoint is due; at whoever decides for all. For one thread.
class Due {
 public:
  explicit Due(const Interval& every) : every_(every) {}

  // The run begins, or goes on, after so many updates and epochs.
  void begin(std::uint64_t updates, std::uint64_t epochs, TimePoint now);
  // Whether one is due with the update after which there are so many.
  bool after_update(std::uint64_t updates, TimePoint now) const;
  // The same when so many epochs are over; those that go by updates or time are not made here.
  bool after_epoch(std::uint64_t epochs) const;
  std::uint64_t updates() const { return updates_; }
  // One is made, there.
  void made(std::uint64_t updates, std::uint64_t epochs, TimePoint now) { begin(updates, epochs, now); }

 private:
  Interval every_;
  std::uint64_t updates_ = 0;
  std::uint64_t epochs_ = 0;
  TimePoint at_;
};

}  // namespace ravnest::checkpoint
