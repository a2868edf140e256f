// What was begun and is still to be waited for.
#pragma once

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
  // There is no time limit, since waiting is no mistake while the others are alive: it ends with the operation, with a
  // rank that is lost, or with an abort. Waiting again gives the same. By one thread at a time.
  virtual Status wait() = 0;
};

}  // namespace ravnest::strategy
