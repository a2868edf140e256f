// Locks that clang holds us to: which members a mutex guards is written down, and a use without it does not compile.
//
// The types are those of the standard library and cost the same; what they add are the words that clang's
// -Wthread-safety reads, which the standard's have not. Other compilers see nothing of them.
//
//   mutable Mutex mutex_;
//   ConditionVariable changed_;
//   int open_ RAVNEST_GUARDED_BY(mutex_) = 0;
//   void close_one() RAVNEST_REQUIRES(mutex_);   // its callers hold the lock
//
// A lambda that runs under the lock (what a wait asks for) says so too: [&]() RAVNEST_REQUIRES(mutex_) { ... }.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "ravnest/base/clock.h"

#ifdef __clang__
#define RAVNEST_FOR_CLANG(words) __attribute__((words))
#else
#define RAVNEST_FOR_CLANG(words)
#endif
#define RAVNEST_GUARDED_BY(mutex) RAVNEST_FOR_CLANG(guarded_by(mutex))
#define RAVNEST_REQUIRES(...) RAVNEST_FOR_CLANG(requires_capability(__VA_ARGS__))
#define RAVNEST_ACQUIRES(...) RAVNEST_FOR_CLANG(acquire_capability(__VA_ARGS__))
#define RAVNEST_RELEASES(...) RAVNEST_FOR_CLANG(release_capability(__VA_ARGS__))

namespace ravnest {

class RAVNEST_FOR_CLANG(capability("mutex")) Mutex {
 public:
  void lock() RAVNEST_ACQUIRES() { mutex_.lock(); }
  bool try_lock() RAVNEST_FOR_CLANG(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() RAVNEST_RELEASES() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds the mutex for as long as it lives, but for the time between `unlock` and `lock`.
class RAVNEST_FOR_CLANG(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RAVNEST_ACQUIRES(mutex) : lock_(mutex) {}
  // Takes over what `try_lock` got.
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) RAVNEST_REQUIRES(mutex) : lock_(mutex, adopt) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() RAVNEST_RELEASES() {}  // NOLINT(modernize-use-equals-default): it has to have the words

  void lock() RAVNEST_ACQUIRES() { lock_.lock(); }
  void unlock() RAVNEST_RELEASES() { lock_.unlock(); }

 private:
  std::unique_lock<Mutex> lock_;
};

// Waits let go of the mutex, which the caller holds, and have it again when they return.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) RAVNEST_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait(held.lock);
  }
  template <class Predicate>
  void wait(Mutex& mutex, Predicate reached) RAVNEST_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait(held.lock, std::move(reached));
  }
  void wait_until(Mutex& mutex, TimePoint deadline) RAVNEST_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait_until(held.lock, deadline);
  }
  // Whether it was reached.
  template <class Predicate>
  bool wait_until(Mutex& mutex, TimePoint deadline, Predicate reached) RAVNEST_REQUIRES(mutex) {
    Held held(mutex);
    return condition_.wait_until(held.lock, deadline, std::move(reached));
  }

 private:
  // The caller's lock in the form that the standard's condition variable takes; stays the caller's, whatever is thrown.
  struct Held {
    explicit Held(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace ravnest
