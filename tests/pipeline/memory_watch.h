// How much memory this process takes, while it runs.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace ravnest {

// Resident megabytes, a line a second, for as long as it lives.
class MemoryWatch {
 public:
  explicit MemoryWatch(const std::filesystem::path& file)
      : thread_([this, file] {
          std::ofstream out(file);
          std::unique_lock lock(mutex_);
          while (!ended_.wait_for(lock, std::chrono::seconds(1), [&] { return end_; })) {
            std::ifstream statm("/proc/self/statm");
            std::int64_t size = 0;
            std::int64_t resident = 0;
            statm >> size >> resident;
            out << static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1e6 << std::endl;
          }
        }) {}
  ~MemoryWatch() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace ravnest
