#include "ravnest/net/job_thread.h"

#include <exception>
#include <utility>

#include "ravnest/net/background_tasks.h"

namespace ravnest {

JobThread::JobThread(std::function<void(const std::string& what)> on_error)
    : on_error_(std::move(on_error)), thread_([this] {
        block_signals();
        run();
      }) {}

JobThread::~JobThread() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void JobThread::add(std::function<void()> job) {
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void JobThread::wait_until_idle() const {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() RAVNEST_REQUIRES(mutex_) { return is_idle(); });
}

bool JobThread::is_idle_by(TimePoint deadline) const {
  const MutexLock lock(mutex_);
  return changed_.wait_until(mutex_, deadline, [this]() RAVNEST_REQUIRES(mutex_) { return is_idle(); });
}

void JobThread::run() {
  for (;;) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() RAVNEST_REQUIRES(mutex_) { return closing_ || !jobs_.empty(); });
      if (closing_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
    }
    try {
      job();
    } catch (const std::exception& error) {
      on_error_(error.what());
    }
    job = {};  // what it holds is gone before anybody is told that it is done
    const MutexLock lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ravnest
