// A bounded first-in first-out queue between threads: where the threads of a node meet.
//
// Any number of threads may push and pop. Every wait ends: with the item, at the deadline (kDeadline), or when the
// queue is closed (kCancelled). After `close` no item gets in; those inside can still be popped, then pops end with
// kCancelled. The queue must outlive every call on it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest {

template <class T>
class BoundedQueue {
 public:
  // A capacity of zero is taken as one.
  explicit BoundedQueue(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 1)) {}
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Waits for room. Moves from `item` only on success, so a caller that failed still has it.
  Status push(T&& item, TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const bool ended = room_.wait_until(lock, deadline, [&] { return closed_ || items_.size() < capacity_; });
    if (!ended) return {Code::kDeadline, "queue stayed full"};
    return put(std::move(item), lock);
  }

  // Does not wait: kUnavailable where the queue is full.
  Status try_push(T&& item) {
    std::unique_lock lock(mutex_);
    if (!closed_ && items_.size() >= capacity_) return {Code::kUnavailable, "queue is full"};
    return put(std::move(item), lock);
  }

  // Waits for an item.
  Result<T> pop(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const bool ended = filled_.wait_until(lock, deadline, [&] { return closed_ || !items_.empty(); });
    if (!ended) return Status(Code::kDeadline, "queue stayed empty");
    return take(lock);
  }

  // Does not wait: kUnavailable where the queue is empty but open.
  Result<T> try_pop() {
    std::unique_lock lock(mutex_);
    if (!closed_ && items_.empty()) return Status(Code::kUnavailable, "queue is empty");
    return take(lock);
  }

  // Wakes everyone who waits. Closing twice is the same as once.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  // True for a moment only, where other threads push and pop.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const { return capacity_; }

 private:
  Status put(T&& item, std::unique_lock<std::mutex>& lock) {
    if (closed_) return {Code::kCancelled, "queue is closed"};
    items_.push_back(std::move(item));
    lock.unlock();
    filled_.notify_one();
    return {};
  }

  Result<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return Status(Code::kCancelled, "queue is closed");
    T item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace ravnest
