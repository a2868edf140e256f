// Counts the bytes that torch's allocators hand out and get back.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace ravnest::graph {

// Watches from its making to its end what the thread that made it allocates on devices of one type, and what autograd's
// threads do for that thread. Memory that was there before, and its freeing, are not counted: whoever wants exact
// figures lets nothing of it go meanwhile. It takes the place of torch's profiler, which must not run at the same time.
class MemoryWatch {
 public:
  explicit MemoryWatch(c10::DeviceType device);

  std::int64_t live_bytes() const;  // allocated and not freed
  std::int64_t peak_bytes() const;  // the most that was live at once

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace ravnest::graph
