// How a rank waits for an operation.
#pragma once

#include <functional>

#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/pending.h"

namespace ravnest::strategy {

// Whoever has signals to look after waits in short steps, and gives up where they say so.
using Waiter = std::function<Status(Pending& pending)>;

}  // namespace ravnest::strategy
