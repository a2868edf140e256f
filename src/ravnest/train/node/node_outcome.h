// How the call that a node's compute thread runs has ended: for the files of Node alone.
#pragma once

#include <optional>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/train/node/node.h"
#include "ravnest/wire/call_messages.h"

namespace ravnest::train {

struct Node::Outcome {
  Mutex mutex;
  ConditionVariable changed;
  std::optional<Result<wire::Closed>> closed RAVNEST_GUARDED_BY(mutex);

  // Nothing until the thread has set it.
  std::optional<Result<wire::Closed>> get() {
    const MutexLock lock(mutex);
    return closed;
  }
};

}  // namespace ravnest::train
