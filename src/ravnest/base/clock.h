// Time as a dependency, so that what waits or measures can be tested without waiting.
#pragma once

#include <atomic>
#include <chrono>

namespace ravnest {

// Steady time in nanoseconds: never goes back, and has no relation to the time of day.
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double seconds_between(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

// `now` may be called from any thread.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  virtual TimePoint now() const = 0;
};

// The machine's own steady clock.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// A clock that moves only when told to. Starts at `start`; `advance` may be called from any thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = TimePoint()) : since_epoch_(start.time_since_epoch().count()) {}

  TimePoint now() const override { return TimePoint(Duration(since_epoch_.load(std::memory_order_acquire))); }

  // A step back is ignored: steady time does not go back.
  void advance(Duration step) {
    if (step > Duration::zero()) since_epoch_.fetch_add(step.count(), std::memory_order_acq_rel);
  }

 private:
  std::atomic<Duration::rep> since_epoch_;
};

}  // namespace ravnest
