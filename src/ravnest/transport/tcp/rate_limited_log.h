// Lines about strangers, at most one a second: whoever knocks at the port must not be able to fill the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"

namespace ravnest::transport::tcp {

// Not thread-safe; one owner.
class RateLimitedLog {
 public:
  explicit RateLimitedLog(Logger log) : log_(std::move(log)) {}

  void say(TimePoint now, std::string_view what) {
    if (now < again_at_) {
      ++unsaid_;
      return;
    }
    again_at_ = now + std::chrono::seconds(1);
    log_.info(what, unsaid_ > 0 ? text(" (and ", unsaid_, " more like this)") : "");
    unsaid_ = 0;
  }

 private:
  Logger log_;
  TimePoint again_at_{};
  std::uint64_t unsaid_ = 0;
};

}  // namespace ravnest::transport::tcp
