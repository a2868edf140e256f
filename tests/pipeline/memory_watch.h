// How much memory this process takes, while it runs.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"

namespace ravnest {

// Resident megabytes, a line a second, for as long as it lives.
class MemoryWatch {
 public:
  explicit MemoryWatch(const std::filesystem::path& file)
      : thread_([this, file] {
          std::ofstream out(file);
          const MutexLock lock(mutex_);
          while (!ended_.wait_until(mutex_, SystemClock().now() + std::chrono::seconds(1),
                                    [&]() RAVNEST_REQUIRES(mutex_) { return end_; })) {
            std::ifstream statm("/proc/self/statm");
            std::int64_t size = 0;
            std::int64_t resident = 0;
            statm >> size >> resident;
            out << static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1e6 << std::endl;
          }
        }) {}
  ~MemoryWatch() {
    {
      const MutexLock lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  Mutex mutex_;
  ConditionVariable ended_;
  bool end_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ravnest
