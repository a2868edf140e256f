// What was begun and is still to be waited for.
#pragma once

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest::strategy {

class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  // Does not wait: what was begun goes on.
  virtual ~Pending() = default;

  // Returns when the result is there; on a GPU, when all later work of the calling thread's current stream will see it.
  // Waiting again gives the same. By one thread at a time. kDeadline where it is not there by then: for whoever has
  // signals to look after.
  virtual Status wait_until(TimePoint deadline) = 0;
  // Waiting is no mistake while the others are alive: this ends with the operation, with a rank that is lost, or with
  // an abort.
  Status wait() { return wait_until(TimePoint::max()); }
};

}  // namespace ravnest::strategy
