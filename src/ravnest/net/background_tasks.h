// Work that makes its thread wait, done by threads of their own for one that must not wait itself.
//
// Each task has a thread that ends by itself, even after the owner is gone: the system has calls that nothing can cut
// short. Its result waits until it is taken; what comes after the owner is gone is dropped. `start` and `take` are for
// one thread at a time.
#pragma once

#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/net/event_descriptor.h"

namespace ravnest {

// Signals are for the application's threads, not for those of a library.
inline void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

template <class T>
class BackgroundTasks {
 public:
  BackgroundTasks() = default;
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;
  ~BackgroundTasks() {
    const MutexLock lock(shared_->mutex);
    shared_->ended = true;
    shared_->results.clear();
    shared_->stop.raise();
  }

  // Calls `work` with a descriptor that becomes readable when nobody wants the result any more. `work` must own all
  // that it uses. kUnavailable where there can be no more threads.
  template <class Work>
  Status start(Work work) {
    try {
      std::thread([shared = shared_, work = std::move(work)] {
        block_signals();
        shared->put(work(shared->stop.number()));
      }).detach();
    } catch (const std::system_error& error) {
      return unavailable("no thread can be started: ", error.what());
    }
    return {};
  }

  // Readable while there are results.
  int ready() const { return shared_->ready.number(); }
  std::vector<T> take() {
    shared_->ready.take();
    const MutexLock lock(shared_->mutex);
    return std::exchange(shared_->results, {});
  }

 private:
  struct Shared {
    EventDescriptor stop;
    EventDescriptor ready;
    Mutex mutex;
    bool ended RAVNEST_GUARDED_BY(mutex) = false;
    std::vector<T> results RAVNEST_GUARDED_BY(mutex);

    void put(T result) {
      const MutexLock lock(mutex);
      if (ended) return;
      results.push_back(std::move(result));
      ready.raise();
    }
  };

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace ravnest
