// Work that has to be done before its owner goes, while that one gets on with what is more urgent.
//
// A program that fails says so at once, and tells the network of it meanwhile. Safe from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/net/background_tasks.h"

namespace ravnest {

class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() { finish(); }

  // Does `work`, which does not throw, on a thread of its own; here and now where there can be no more threads.
  // `name` is for those who wait for it.
  void start(const std::string& name, const std::function<void()>& work) {
    {
      const MutexLock lock(mutex_);
      ++running_;
    }
    try {
      std::thread thread([this, work] {
        block_signals();
        work();
        done();
      });
      const MutexLock lock(mutex_);
      threads_.emplace(name, std::move(thread));
    } catch (const std::system_error&) {
      work();
      done();
    }
  }

  // Whoever waits for what was started has no more time: work that takes long asks `hurried` now and then. Until all of
  // it is done.
  void hurry() {
    const MutexLock lock(mutex_);
    hurried_ = running_ > 0;
  }
  bool hurried() {
    const MutexLock lock(mutex_);
    return hurried_;
  }
  // Whether all that was started is done by then.
  bool done_by(TimePoint deadline) {
    const MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) { return running_ == 0; });
  }

  // Until what was started under that name is done, or all that was.
  void finish(const std::string& name) {
    Threads started;
    {
      const MutexLock lock(mutex_);
      while (auto thread = threads_.extract(name)) started.insert(std::move(thread));
    }
    join(started);
  }
  void finish() {
    Threads started;
    {
      const MutexLock lock(mutex_);
      started.swap(threads_);
    }
    join(started);
  }

 private:
  using Threads = std::multimap<std::string, std::thread>;

  static void join(Threads& threads) {
    for (auto& [name, thread] : threads) thread.join();
  }

  void done() {
    const MutexLock lock(mutex_);
    --running_;
    hurried_ = hurried_ && running_ > 0;
    changed_.notify_all();
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::size_t running_ RAVNEST_GUARDED_BY(mutex_) = 0;
  bool hurried_ RAVNEST_GUARDED_BY(mutex_) = false;
  Threads threads_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest
