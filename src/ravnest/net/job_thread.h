// One thread that does jobs in the order in which they were given, beside whoever gives them.
//
// Safe from any thread; `add` also from a job.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"

namespace ravnest {

class JobThread {
 public:
  // `on_error` is told, on the thread, what a job has thrown.
  explicit JobThread(std::function<void(const std::string& what)> on_error);
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  // Waits for the job at hand. What waits behind it is dropped.
  ~JobThread();

  void add(std::function<void()> job);
  // Until all that was added is done, and let go of.
  void wait_until_idle() const;
  // Whether that is so by then.
  bool is_idle_by(TimePoint deadline) const;

 private:
  void run();
  bool is_idle() const RAVNEST_REQUIRES(mutex_) { return jobs_.empty() && !busy_; }

  const std::function<void(const std::string& what)> on_error_;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ RAVNEST_GUARDED_BY(mutex_);
  bool busy_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool closing_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace ravnest
