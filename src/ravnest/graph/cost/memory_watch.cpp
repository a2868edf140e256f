#include "ravnest/graph/cost/memory_watch.h"

#include <c10/core/Allocator.h>

#include <algorithm>

#include "ravnest/base/mutex.h"

namespace ravnest::graph {

class MemoryWatch::Counter : public c10::MemoryReportingInfoBase {
 public:
  explicit Counter(c10::DeviceType device) : device_(device) {}

  void reportMemoryUsage(void* /*ptr*/, std::int64_t alloc_size, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device device) override {
    if (device.type() != device_) return;
    const MutexLock lock(mutex_);
    live_ += alloc_size;  // negative when memory is freed
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t live() const {
    const MutexLock lock(mutex_);
    return live_;
  }
  std::int64_t peak() const {
    const MutexLock lock(mutex_);
    return peak_;
  }

 private:
  const c10::DeviceType device_;
  mutable Mutex mutex_;  // autograd has threads of its own for CUDA devices
  std::int64_t live_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::int64_t peak_ RAVNEST_GUARDED_BY(mutex_) = 0;
};

MemoryWatch::MemoryWatch(c10::DeviceType device)
    : counter_(std::make_shared<Counter>(device)), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

std::int64_t MemoryWatch::live_bytes() const { return counter_->live(); }
std::int64_t MemoryWatch::peak_bytes() const { return counter_->peak(); }

}  // namespace ravnest::graph
