// Who waits for others says so: after a moment, and then now and again. Nobody is to wait without a line.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/status.h"

namespace ravnest::strategy {

// When the next line is due. Not thread-safe; one owner.
class Reminder {
 public:
  explicit Reminder(TimePoint now, Duration first = std::chrono::seconds(1), Duration every = std::chrono::seconds(5))
      : next_(now + first), every_(every) {}

  // Whether to say it now; then the next time is later.
  bool is_due(TimePoint now) {
    if (now < next_) return false;
    next_ = now + every_;
    return true;
  }

 private:
  TimePoint next_;
  Duration every_;
};

// `poll`, which may be empty, for one wait: what asks it also says `line()` when that is due. `log` outlives it.
inline std::function<Status()> with_reminder(const std::function<Status()>& poll, const Logger& log,
                                             std::function<std::string()> line,
                                             Reminder reminder = Reminder(SystemClock().now())) {
  return [poll, &log, line = std::move(line), reminder]() mutable -> Status {
    if (reminder.is_due(SystemClock().now())) log.info(line());
    return poll ? poll() : Status();
  };
}

}  // namespace ravnest::strategy
